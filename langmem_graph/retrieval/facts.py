"""Fact search for reasoning: records and messages as one list, with a relation hint.

A message whose record is found too is represented by that record. What is in both lists comes first
(reciprocal rank fusion).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rapidfuzz import fuzz
from sqlalchemy import Connection

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import EmbeddingError
from langmem_graph.llm.answer_schemas import Relation
from langmem_graph.retrieval.message_search import search_different, with_method
from langmem_graph.retrieval.search_common import SearchNotes
from langmem_graph.schemas import Fact, Message, MessageHit, Record
from langmem_graph.settings import Settings
from langmem_graph.storage import message_queries, record_queries
from langmem_graph.storage.graph_edges import CAUSAL, neighbours
from langmem_graph.storage.room import Room
from langmem_graph.storage.services import Services

if TYPE_CHECKING:
    from langmem_graph.runtime import StepRun

LONGEST = 600
"""Characters of a fact; a message is cut to its best part."""

Search = Callable[[str, int, Relation, "StepRun"], Awaitable[list[Fact]]]
"""Searches a memory: query, number of facts, relation, run."""


def find_facts(
    room: Room,
    embedder: Embedder,
    settings: Settings,
    query: str,
    k: int,
    relation: "Relation" = "semantic",
    notes: SearchNotes | None = None,
) -> list[Fact]:
    """The `k` best facts, best first; with `temporal` in the order of time."""
    notes = notes or SearchNotes()
    exact = relation == "entity"
    wide = 2 * k if relation == "temporal" else k
    chosen = with_method(settings, "words" if exact else None)
    hits, ranked = search_different(room, embedder, query, wide, chosen, notes)
    numbers = ranked.best_numbers(wide, "words" if exact else None)
    with room.database.read_transaction() as connection:
        found = record_queries.records_by_number(connection, numbers)
        records = [found[n] for n in numbers if n in found]
        near = dict(zip(ranked.numbers, ranked.signals.get("dense", ()), strict=False))
        likeness = {found[n].record_id: float(near[n]) for n in found}
        if relation == "causal" and settings.reasoning.use_causal_edges:
            records = _with_causes(connection, records, k)
        facts = _fused(connection, records, hits, settings.ranking.rrf_k)
    facts = [_with_likeness(fact, likeness) for fact in facts]
    if relation == "temporal":
        return _by_time(facts, k)
    return facts[:k]


def _with_likeness(fact: Fact, likeness: dict[str, float]) -> Fact:
    if fact.record_id not in likeness:
        return fact
    return fact.model_copy(update={"likeness": likeness[fact.record_id]})


def _with_causes(connection: Connection, records: list[Record], k: int) -> list[Record]:
    """Half of the records, and what caused them or came of them; then the others."""
    seeds, rest = records[: (k + 1) // 2], records[(k + 1) // 2 :]
    numbers = record_queries.numbers_of(connection, [record.record_id for record in seeds])
    near = [n for n, _ in neighbours(connection, list(numbers.values()), CAUSAL)]
    found = record_queries.records_by_number(connection, near)
    linked = [found[n] for n in near if n in found]
    return list({one.record_id: one for one in (*seeds, *linked, *rest)}.values())


def _fused(
    connection: Connection, records: Sequence[Record], hits: Sequence[MessageHit], rrf_k: int
) -> list[Fact]:
    scores: dict[str, float] = defaultdict(float)
    facts: dict[str, Fact] = {}
    told: dict[str, str] = {}
    for rank, record in enumerate(records, 1):
        fact = fact_of_record(record)
        facts[fact.id] = fact
        scores[fact.id] += 1 / (rrf_k + rank)
        told |= {message: told.get(message, fact.id) for message in record.message_ids}
    outdated = record_queries.outdated(connection, [hit.position for hit in hits])
    for rank, hit in enumerate(hits, 1):
        key = told.get(hit.message_id)
        if key is None:
            fact = fact_of_message(hit, hit.position in outdated)
            facts[fact.id], key = fact, fact.id
        scores[key] += 1 / (rrf_k + rank)
    return sorted(facts.values(), key=lambda fact: -scores[fact.id])


def _by_time(facts: Sequence[Fact], k: int) -> list[Fact]:
    """Of the best, those that happened at a time before others; then in the order of time."""
    dated = [fact for fact in facts if fact.kind == "event"]
    best = [*dated, *(fact for fact in facts if fact.kind != "event")][:k]
    return sorted(best, key=lambda fact: fact.at or datetime.min.replace(tzinfo=UTC))


def fact_of_record(record: Record) -> Fact:
    """A record as a fact."""
    return Fact(
        id=f"record:{record.record_id}",
        text=record.text[:LONGEST],
        at=record.said_at,
        **record.model_dump(
            include={"record_id", "message_ids", "kind", "subject", "attribute", "confirmation"}
        ),
    )


def fact_of_message(said: MessageHit | Message, outdated: bool = False) -> Fact:
    """A message as a fact; a long one is cut to its best part where that is known."""
    if isinstance(said, MessageHit):
        own, best, signals = said.message_id, said.excerpt, said.signals or {}
    else:
        own, best, signals = said.id, said.text, {}
    return Fact(
        id=f"message:{own}",
        text=said.text if len(said.text) <= LONGEST else f"… {best[:LONGEST]} …",
        at=said.at,
        speaker=said.name or said.role,
        message_ids=[own],
        likeness=signals.get("dense", 0.0),
        outdated=outdated,
    )


def hits_by_id(connection: Connection, ids: Iterable[str]) -> dict[str, MessageHit]:
    """The messages behind facts, by their ids; unknown ids are left out."""
    wanted = list(dict.fromkeys(ids))
    numbers = record_queries.message_numbers(connection, wanted)
    return {
        one: MessageHit(
            message_id=one,
            score=0.0,
            position=numbers[one][0],
            excerpt=message.text,
            **message.model_dump(include={"session_id", "role", "name", "at", "text"}),
        )
        for one, message in message_queries.messages_by_id(connection, wanted).items()
    }


def facts_by_number(room: Room, numbers: Iterable[int]) -> list[Fact]:
    """Records that are true now, as facts, in the order given."""
    wanted = list(dict.fromkeys(numbers))
    with room.database.read_transaction() as connection:
        there = record_queries.current(connection, wanted)
        found = record_queries.records_by_number(connection, there)
    return [fact_of_record(found[n]) for n in wanted if n in found]


def messages_behind(room: Room, facts: Iterable[Fact]) -> dict[str, MessageHit]:
    """The facts' messages that are stored, by id."""
    ids = [one for fact in facts for one in fact.message_ids]
    if not ids:
        return {}
    with room.database.read_transaction() as connection:
        return hits_by_id(connection, ids)


def evidence(quoted: Iterable[Fact], messages: dict[str, MessageHit]) -> list[MessageHit]:
    """The messages behind what was quoted, best first, each once."""
    ids = dict.fromkeys(one for fact in quoted for one in fact.message_ids)
    found = [messages[one] for one in ids if one in messages]
    return [hit.model_copy(update={"score": 1 / place}) for place, hit in enumerate(found, 1)]


class MemorySearch:
    """Searches the memory of the run's user."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(self, query: str, k: int, relation: Relation, run: "StepRun") -> list[Fact]:
        """The best facts; none where the user has no memory yet."""
        services = self._services
        return await services.in_known_room(
            run.user,
            lambda room: find_facts(room, services.embedder, services.settings, query, k, relation),
            [],
        )

    async def likeness(self, text: str, others: Sequence[str], run: "StepRun") -> float:
        """The greatest cosine; by spelling where the embedder fails."""
        if not others:
            return 0.0
        try:
            vectors = await asyncio.to_thread(self._services.embedder.embed, [text, *others])
        except EmbeddingError:
            return spelling(text, others)
        return float((vectors[1:] @ vectors[0]).max())


def spelling(text: str, others: Sequence[str]) -> float:
    """Greatest similarity by spelling, whatever the order of the words."""
    return max((fuzz.token_sort_ratio(text, one) / 100 for one in others), default=0.0)
