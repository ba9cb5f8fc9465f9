"""Plain systems to compare with: BM25, cosine of texts, everything there is, and the
gold alone.
"""

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from benchmarks.data.items import Question, Session
from benchmarks.models import Spent
from benchmarks.readers import (
    Context,
    ContextReader,
    Passage,
    Reply,
    quoted,
    whole_sessions,
)
from langmem_graph.results import SearchBy

_WORD = re.compile(r"\w+")


class Baseline(ABC):
    """Holds the messages; a subclass ranks them."""

    name = ""

    def __init__(self) -> None:
        self.messages: list[Passage] = []

    def add(self, session: Session) -> Spent:
        """Keep the messages that say something."""
        start = perf_counter()
        spoken = [one for one in session.messages if str(one["content"]).strip()]
        new = [said_passage(one, session.session_id) for one in spoken]
        self.messages += new
        self.index(new)
        return Spent(perf_counter() - start)

    def index(self, new: Sequence[Passage]) -> None:  # noqa: B027  # not all have an index
        """Make the new messages findable."""

    @abstractmethod
    def ranked(self, query: str) -> list[Passage]:
        """Messages, best first."""

    def search(self, query: str, k: int, by: SearchBy) -> list[Passage]:
        """A session stands where its best message does."""
        found = self.ranked(query)
        if by == "session":
            best: dict[str, Passage] = {}
            for one in found:
                best.setdefault(one.session_id, replace(one, id=one.session_id))
            found = list(best.values())
        return found[:k]

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """From the best messages, or from the best sessions."""
        found = self.search(question.text, k, reader.by)
        if reader.by == "session":
            found = whole_sessions(found, self.messages)
        return reader.read_passages(question, found)

    def size(self) -> int:
        """Nothing is on disk."""
        return 0

    def close(self) -> None:
        """Let go of the messages."""
        self.messages.clear()


def said_passage(message: dict[str, object], session: str) -> Passage:
    """A message as it is quoted."""
    speaker = message.get("name") or message.get("role") or ""
    text = f"{speaker}: {message['content']}"
    return Passage(str(message["id"]), text, str(message.get("at") or ""), session)


class BM25(Baseline):
    """SQLite's own BM25 over stemmed words, any of the query's."""

    name = "bm25"

    def __init__(self) -> None:
        super().__init__()
        self._table = sqlite3.connect(":memory:", check_same_thread=False)
        self._table.execute(
            "CREATE VIRTUAL TABLE said USING fts5(text, tokenize = 'porter unicode61')"
        )

    def index(self, new: Sequence[Passage]) -> None:
        """Put the words in."""
        first = len(self.messages) - len(new)
        rows = [(first + place, one.text) for place, one in enumerate(new)]
        self._table.executemany("INSERT INTO said(rowid, text) VALUES (?, ?)", rows)

    def ranked(self, query: str) -> list[Passage]:
        """SearchBy BM25; what shares no word is not found."""
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(query)))
        if not words:
            return []
        rows = self._table.execute(
            "SELECT rowid FROM said WHERE said MATCH ? ORDER BY bm25(said), rowid",
            (words,),
        )
        return [self.messages[place] for (place,) in rows]

    def close(self) -> None:
        """Drop the words."""
        self._table.close()


class NaiveRag(Baseline):
    """Cosine of the text alone, as peers embed it: no speaker, no pieces, no words."""

    name = "naive-rag"

    def __init__(self, embeddings: Embeddings) -> None:
        super().__init__()
        self._embeddings = embeddings
        self._blocks: list[NDArray[np.float32]] = []

    def index(self, new: Sequence[Passage]) -> None:
        """Embed the texts."""
        if new:
            texts = [self._read(one.text.split(": ", 1)[1]) for one in new]
            vectors = self._embeddings.embed_documents(texts)
            self._blocks.append(np.asarray(vectors, dtype=np.float32))

    def _read(self, text: str) -> str:
        """What the embedder reads of a text: its first piece, whose vector may be
        cached by now.
        """
        split = getattr(self._embeddings, "split", None)
        return text[: split(text)[0][1]] if split else text

    def ranked(self, query: str) -> list[Passage]:
        """In the order of cosine."""
        if not self._blocks:
            return []
        vector = np.asarray(self._embeddings.embed_query(query), dtype=np.float32)
        blocks = np.concatenate(self._blocks)
        lengths = np.maximum(np.linalg.norm(blocks, axis=1), 1e-12)
        order = np.argsort(-(blocks @ vector) / lengths, kind="stable")
        return [self.messages[place] for place in order.tolist()]


class FullContext(Baseline):
    """No memory: the model reads everything, or the latest of it that fits.

    Args:
        tokens: of the model's window that the history may take.
    """

    name = "full-context"

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._tokens = tokens

    def ranked(self, query: str) -> list[Passage]:
        """The latest first."""
        return self.messages[::-1]

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """From everything, each message whole."""
        return reader.read(question, self._shown(self.messages))

    def _shown(self, messages: Sequence[Passage]) -> Context:
        """What of them fits, the latest first; sessions that are shown whole are named
        too.
        """
        shown = quoted(messages[::-1], self._tokens, longest=None, last=True)
        ids = set(shown.ids)
        cut = {one.session_id for one in self.messages if one.id not in ids}
        whole = {one.session_id for one in messages} - cut
        return replace(shown, ids=[*shown.ids, *sorted(whole)])


class Oracle(FullContext):
    """What perfect retrieval would reach: the model reads the gold messages or
    sessions, whole.
    """

    name = "oracle"

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """From the gold alone; from nothing where the data set has none."""
        gold = [
            one for one in self.messages if {one.id, one.session_id} & question.gold
        ]
        return reader.read(question, self._shown(gold))
