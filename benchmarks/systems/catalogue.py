"""The systems by name, the ablations, and the sweep over depth and breadth.

To add a system, write a class with the six members of `System` and name it in
`catalogue`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from langchain_core.embeddings import Embeddings
from pydantic import ValidationError

from benchmarks.data.distractors import HARD, RANDOM
from benchmarks.data.items import Question, Session
from benchmarks.models import Spent
from benchmarks.readers import ContextReader, Passage, Reply
from benchmarks.systems.baselines import BM25, FullContext, NaiveRag, Oracle
from benchmarks.systems.edges import Edges
from benchmarks.systems.ours import Ours, Reasoning, SharedMemory
from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.results import SearchBy
from langmem_graph.settings import Settings

RETRIEVAL = ("ours", "ours+records", "rrf", "dense", "words", "bm25", "naive-rag")
ANSWER = ("ours", "ours-reason", "bm25", "naive-rag", "full-context", "oracle")
"""What is measured when nobody says."""
ABLATIONS: dict[str, dict[str, Any]] = {
    "goals": {"reasoning": {"use_goals": False}},
    "counterfactual": {"reasoning": {"use_counterfactual": False}},
    "causal": {"reasoning": {"use_causal_edges": False}},
    "semantic": {"reasoning": {"use_semantic_edges": False}},
    "topics": {"reasoning": {"use_profile": False}},
    "records": {},
}
"""What is switched off; without `records` a memory is read by nobody and holds messages
alone.
"""


class System(Protocol):
    """A memory: sessions go in, in order; questions come in between and at the end."""

    name: str

    def add(self, session: Session) -> Spent:
        """Take in a session, and say what it cost."""

    def search(self, query: str, k: int, by: SearchBy) -> list[Passage]:
        """The best `k`, best first; their ids are of messages or of sessions, as `by`
        says.
        """

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """Answer; most systems give what they find to `reader.read_passages`."""

    def size(self) -> int:
        """Bytes on disk, 0 for what is held in memory alone."""

    def close(self) -> None:
        """Release everything; safe to call twice."""


@dataclass
class Workshop:
    """Makes the systems of one conversation; those that can share a memory do.

    Attributes:
        folder: where memories lie while the conversation is measured.
        embeddings: of all systems.
        model: reads and reasons for `ours-reason`.
        full_tokens: what `full-context` and `oracle` may show.
        database: a PostgreSQL URL, where memories lie instead.
    """

    folder: Path
    embeddings: Embeddings
    model: Any = None
    full_tokens: int = 100_000
    database: str | None = None
    _shared: dict[str, SharedMemory] = field(default_factory=dict)

    def memory(self, name: str, **options: Any) -> SharedMemory:
        """The memory of that name, made at first need."""
        if name not in self._shared:
            self._shared[name] = SharedMemory(
                self.folder / name, self.embeddings, database=self.database, **options
            )
        return self._shared[name]

    def plain(self) -> SharedMemory:
        """Messages alone."""
        return self.memory("plain")

    def read(self) -> SharedMemory:
        """A memory whose messages a model reads."""
        return self.memory("read", model=self.model)


Make = Callable[[Workshop], System]


@dataclass(frozen=True)
class Spec:
    """A system that can be asked for.

    Attributes:
        name: as the command takes it.
        make: for one conversation.
        needs_model: cannot be made without one.
        answers_only: has no ranked list worth measuring.
    """

    name: str
    make: Make
    needs_model: bool = False
    answers_only: bool = False


def _reasoning(name: str, settings: Mapping[str, Any], shop: Workshop) -> System:
    return Reasoning(name, shop.read(), settings)


def _unread(name: str, shop: Workshop) -> System:
    """Reasons over messages that nobody read; its folder is its own, as it has
    a model.
    """
    memory = shop.memory("unread", model=shop.model, reads=False)
    return Reasoning(name, memory)


def _ours(name: str, ranking: Any, shop: Workshop) -> System:
    return Ours(name, shop.plain(), ranking)


def catalogue() -> dict[str, Spec]:
    """All systems that can be named."""
    rankings = {"ours": "hybrid", "rrf": "rrf", "dense": "dense", "words": "words"}
    found = [
        Spec(name, partial(_ours, name, ranking)) for name, ranking in rankings.items()
    ]
    found += [
        Spec("ours+records", _with_records),
        Spec("ours-reason", partial(_reasoning, "ours-reason", {}), True, True),
        Spec("bm25", lambda shop: BM25()),
        Spec("naive-rag", lambda shop: NaiveRag(shop.embeddings)),
        Spec(
            "full-context",
            lambda shop: FullContext(shop.full_tokens),
            answers_only=True,
        ),
        Spec("oracle", lambda shop: Oracle(shop.full_tokens), answers_only=True),
    ]
    return {spec.name: spec for spec in found}


def _with_records(shop: Workshop) -> System:
    return Ours("ours+records", shop.memory("records", with_records=True))


def ablations(names: list[str]) -> list[Spec]:
    """`ours-reason` without each of these parts; `all` is every part.

    Raises:
        InvalidInputError: there is no such part.
    """
    wanted = list(ABLATIONS) if names == ["all"] else names
    if unknown := [name for name in wanted if name not in ABLATIONS]:
        raise InvalidInputError(
            f"No part {unknown[0]!r}; there are {', '.join(ABLATIONS)}."
        )
    return [_ablation(name) for name in wanted]


def _ablation(part: str) -> Spec:
    name = f"without {part}"
    make = (
        partial(_unread, name)
        if part == "records"
        else partial(_reasoning, name, ABLATIONS[part])
    )
    return Spec(name, make, True, True)


def sweep(depths: list[int], breadths: list[int]) -> list[Spec]:
    """`ours-reason` with every depth of the goal loop and every breadth.

    Raises:
        InvalidInputError: there is no such depth or breadth.
    """
    return [_swept(depth, breadth) for depth in depths for breadth in breadths]


def _swept(depth: int, breadth: int) -> Spec:
    name = f"depth {depth}, breadth {breadth}"
    settings = {"reasoning": {"depth": depth, "breadth": breadth}}
    try:
        Settings.model_validate(settings)
    except ValidationError as error:
        raise InvalidInputError(f"No {name}: {explain(error)}.") from error
    return Spec(name, partial(_reasoning, name, settings), True, True)


def edges(floors: list[float]) -> list[Spec]:
    """`ours-reason` with each of these cosines from which semantic edges are followed.

    One memory serves all: its records have edges from the lowest cosine on.
    """
    return [_edges(floor, min(floors)) for floor in floors]


def _edges(floor: float, lowest: float) -> Spec:
    def make(shop: Workshop) -> System:
        settings = {"extraction": {"semantic_floor": lowest}}
        name = f"edges-{lowest}"
        return Edges(floor, shop.memory(name, model=shop.model, settings=settings))

    return Spec(f"edges from {floor}", make, True, True)


class _Offering:
    """A system at whose requests other tools are offered beside the right one."""

    def __init__(self, name: str, system: System, kind: str, count: int) -> None:
        self.name, self._system, self._kind, self._count = name, system, kind, count
        self.add, self.search = system.add, system.search
        self.size, self.close = system.size, system.close

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """With the first of the other tools."""
        others = question.distractors[self._kind][: self._count]
        return self._system.answer(replace(question, offered=others), k, reader)


def offering(specs: list[Spec], counts: list[int]) -> list[Spec]:
    """Each system with so many other tools beside the right one, by chance and the most
    alike.

    Raises:
        InvalidInputError: a count below 1.
    """
    if min(counts) < 1:
        raise InvalidInputError(f"At least 1 other tool, not {min(counts)}.")
    kinds = [(kind, count) for kind in (RANDOM, HARD) for count in counts]
    return [_offering(spec, kind, count) for spec in specs for kind, count in kinds]


def _offering(spec: Spec, kind: str, count: int) -> Spec:
    name = f"{spec.name} +{count} {kind}"

    def make(shop: Workshop) -> System:
        return _Offering(name, spec.make(shop), kind, count)

    return replace(spec, name=name, make=make, answers_only=True)


def chosen(names: list[str], *, answering: bool, has_model: bool) -> list[Spec]:
    """The systems by their names, or the usual ones.

    Raises:
        InvalidInputError: there is no such system, or it cannot be measured this way.
    """
    every = catalogue()
    usual = ANSWER if answering else RETRIEVAL
    if unknown := [name for name in names if name not in every]:
        raise InvalidInputError(
            f"No system {unknown[0]!r}; there are {', '.join(every)}."
        )
    specs = [every[name] for name in names or usual]
    for spec in specs:
        if spec.answers_only and not answering:
            raise InvalidInputError(f"{spec.name} only answers: name a --model.")
        if spec.needs_model and not has_model:
            raise InvalidInputError(f"{spec.name} needs a --model.")
    return specs
