"""Made-up chat for the speed runs, and an embedder for it that costs next to nothing.

The chat is made by chance, but with the word frequencies of real chat.

Common words are real and common (Zipf's law with Mandelbrot's offset), the rare ones are invented,
each session leans towards the words of a topic, and one person speaks in every session, so that a
query with a name matches half of all messages, as it does in real memories.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from zlib import crc32

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

_COMMON_TEXT = """
i you the to a it and that of is in me what we for my on so was have your this do with
but be are not just like at no can know really how if they about all get she he there up out one
good well would go think her time him see now had when from got oh some here did been as them yeah
right were will time too back then an want love day work great going more who am by people make
need feel our has way take could said us tell or because very come let something any much over new
always sure than thanks life hope last home first never help things happy down good week family year
friends house school dinner music story weekend trip plan book movie birthday morning garden doctor
train money phone coffee photo holiday project brother sister mother running summer
cooking"""
_COMMON = list(dict.fromkeys(_COMMON_TEXT.split()))
_TELLING = _COMMON[-60:]
"""Common words that are no stop words: many messages have them."""
_OPENERS = (
    "||||Hey {name}!|Guess what, {name},|By the way,|I was thinking:|Thanks {name}!|Well,|Last week"
    "|Do you remember, {name}?|You know what?|I finally did it:|Not sure yet, but"
).split("|")
_CLOSERS = (
    ".|.|.|.|!|?|, right?|. What do you think?|. How about you?|. Talk soon!".split("|")
)
_QUERIES = (
    "When did {name} tell about the {rare} {common}?",
    "What did {name} say about {common} and {rare}?",
    "How did the {rare} {topic} go last {common}?",
    "Which {common} did {name} want for the {topic}?",
    "where is the {topic} {rare} now",
    "Can you remind me of the {common} with {name} and the {topic}?",
)
SIZE = 384
"""Numbers of a vector."""
_OWNER = "Maren"
_PARTNERS = ("Tobias", "Ilse", "Rafiq", "Noor", "Petra", "Jonas", "Amara", "Luca")
_PARTS = """
bay bell boat bone bow cap car cart clay cliff cloud coal corn crow cup dawn deer dew dock
door dove dust elm farm fern fig fin fire fish flag foam fog fork fox frost gate glass goat gold
goose grain grass hail hand hawk hay hedge hill hook horn ice ink iron ivy jar kite lake lamp leaf
lime lion mast milk mill mint moon moss moth nest net nut oak oat owl path pea pear pine pipe plum
pond pool quill rain reed ring road rock roof root rope rose rye sail salt sand seed sheep ship silk
snow soap star stone storm swan tea thorn tide tin tower tree vine wall wave wax well wheel wind
wolf wood wool""".split()


@dataclass(frozen=True)
class Chat:
    """Words by frequency, and the topics' own words."""

    words: list[str]
    shares: NDArray[np.float64]
    """Cumulative share of each word and those more common."""
    topics: NDArray[np.int64]
    """Word numbers of each topic."""
    random: np.random.Generator


def make_chat(*, vocabulary: int = 12_000, topics: int = 300, seed: int = 7) -> Chat:
    """The same chat for the same seed."""
    random = np.random.default_rng(seed)
    words = _COMMON + [_invented(n) for n in range(vocabulary - len(_COMMON))]
    share = 1.0 / (np.arange(len(words)) + 2.7)
    own = random.integers(len(_COMMON), len(words), size=(topics, 40))
    return Chat(words, np.cumsum(share / share.sum()), own, random)


def _invented(number: int) -> str:
    """A compound, another for each number; an embedder reads it as two pieces or so."""
    return _PARTS[number % len(_PARTS)] + _PARTS[number // len(_PARTS) % len(_PARTS)]


def sessions(
    chat: Chat, messages: int, *, length: int = 20
) -> Iterator[list[dict[str, Any]]]:
    """Sessions of `length` messages until there are `messages`."""
    for start in range(0, messages, length):
        topic = chat.topics[chat.random.integers(len(chat.topics))]
        partner = str(chat.random.choice(_PARTNERS))
        count = min(length, messages - start)
        yield [
            _message(chat, topic, (_OWNER, partner)[n % 2], (partner, _OWNER)[n % 2])
            for n in range(count)
        ]


def _message(
    chat: Chat, topic: NDArray[np.int64], speaker: str, listener: str
) -> dict[str, Any]:
    """About 25 words: lengths are log-normal, a sixth of the words are the topic's."""
    random = chat.random
    size = int(np.clip(random.lognormal(3.0, 0.5), 3, 120))
    picked = np.searchsorted(chat.shares, random.random(size))
    on_topic = random.random(size) < 1 / 6
    picked[on_topic] = random.choice(topic, size=int(on_topic.sum()))
    body = " ".join(chat.words[place] for place in picked.tolist())
    opener = str(random.choice(_OPENERS)).format(name=listener)
    text = f"{opener} {body}{random.choice(_CLOSERS)}".strip()
    return {"role": "user", "name": speaker, "content": text}


def queries(chat: Chat, count: int) -> list[str]:
    """Questions with a name, a word that many messages have, and words of a topic."""
    made = []
    for number in range(count):
        rare, topic = chat.random.choice(chat.topics[number % len(chat.topics)], size=2)
        text = _QUERIES[number % len(_QUERIES)].format(
            name=chat.random.choice((_OWNER, *_PARTNERS[:3])),
            common=chat.random.choice(_TELLING),
            rare=chat.words[int(rare)],
            topic=chat.words[int(topic)],
        )
        made.append(text)
    return made


class CheapEmbeddings(Embeddings):
    """Sums of word vectors; texts that share rare words, as those of one topic do, are close.

    Args:
        chat: its words get vectors, the rarer the longer; all others are left out.
    """

    model_name = "cheap-384"

    def __init__(self, chat: Chat) -> None:
        self.query_seconds = 0.0
        """Time spent on queries' vectors, to be taken off the time of searching."""
        self._places = {word: place for place, word in enumerate(chat.words)}
        random = np.random.default_rng(3)
        vectors = random.standard_normal((len(chat.words), SIZE)).astype(np.float32)
        self._vectors = vectors * np.sqrt(np.arange(1, len(chat.words) + 1))[:, None]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One unit vector per text."""
        return [self._vector(text).tolist() for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """The unit vector of one text."""
        start = perf_counter()
        vector: list[float] = self._vector(text).tolist()
        self.query_seconds += perf_counter() - start
        return vector

    def _vector(self, text: str) -> NDArray[np.float32]:
        words = (word.strip(".,!?:").lower() for word in text.split())
        places = [self._places[word] for word in words if word in self._places]
        summed = self._vectors[places].sum(axis=0) + self._trace(text)
        return np.asarray(summed / np.linalg.norm(summed), dtype=np.float32)

    @staticmethod
    def _trace(text: str) -> NDArray[np.float32]:
        """A little of each text's own, so that no two are alike and none is empty."""
        trace = np.zeros(SIZE, dtype=np.float32)
        trace[crc32(text.encode()) % SIZE] = 10.0
        return trace
