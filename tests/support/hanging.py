"""Embedders and models that hang, raise or are slow; and calls that must end."""

import threading
import time
from collections.abc import Callable
from typing import Any

from langchain_core.embeddings import Embeddings

from langmem_graph.testing import HashEmbeddings

LIMIT = 60.0
"""Seconds after which a call counts as hanging: far more than any of its limits."""


class HangingEmbeddings(Embeddings):
    """The hash embedder; a text with one of the words in `hangs` gets no answer until `release`."""

    model_name = "hanging"

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.calls = 0
        self.entered = threading.Event()
        self.within: Callable[[], object] = lambda: None
        """Called before an answer, as if the embedder did it."""
        self._released = threading.Event()
        self._hash = HashEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        if any(word in text for word in self.hangs for text in texts):
            self.entered.set()
            self._released.wait()
        self.within()
        return self._hash.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]

    def release(self) -> None:
        """Every call gets its answer, also those that hang now."""
        self.hangs.clear()
        self._released.set()


def ends(work: Callable[[], Any]) -> Any:
    """What the work returns, or the error that it raises; a work that hangs is a failure."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001  # it is what the test looks at
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert outcome, "it hangs"
    return outcome[0]


def raising(error: BaseException) -> Callable[[str], Any]:
    """An answer of a scripted model that is this error."""

    def answer(_: str) -> Any:
        raise error

    return answer


def slowly(answer: Callable[[str], Any], seconds: float) -> Callable[[str], Any]:
    """The answer after so many seconds."""

    def wait(question: str) -> Any:
        time.sleep(seconds)
        return answer(question)

    return wait
