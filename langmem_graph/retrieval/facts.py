"""Facts: records and messages in one form, the search for them, and the messages behind them.

`find_facts` searches both and fuses the two lists (reciprocal rank fusion); a message whose record
is found too is represented by that record. `MemorySearch` is this search for the steps of a graph.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Literal

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
from langmem_graph.storage.clusters_and_edges import CAUSAL, neighbours
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.user_room import Room

if TYPE_CHECKING:
    from langmem_graph.runtime import StepRun

Search = Callable[[str, int, Relation, "StepRun"], Awaitable[list[Fact]]]
"""Searches a memory: query, number of facts, relation, run."""

LONGEST = 600
"""Characters of a fact; a longer message is cut to its best part."""


def find_facts(
    room: Room,
    embedder: Embedder,
    settings: Settings,
    query: str,
    k: int,
    relation: Relation = "semantic",
    notes: SearchNotes | None = None,
) -> list[Fact]:
    """The `k` best facts for a query, best first.

    Args:
        room: the user's room.
        embedder: embeds the query.
        settings: for ranking and reasoning.
        query: the query.
        k: number of facts.
        relation: `entity` searches by words alone, `causal` adds causes and effects, `temporal`
            prefers events and orders by time (Goal-Mem 2.2).
        notes: takes the parts that fail.
    """
    notes = notes or SearchNotes()
    depth = 2 * k if relation == "temporal" else k
    signal: Literal["words"] | None = "words" if relation == "entity" else None
    chosen = with_method(settings, signal)
    hits, ranked = search_different(room, embedder, query, depth, chosen, notes)
    numbers = ranked.best_numbers(depth, signal)
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
    """The first half of the records, their causes and effects, then the other records."""
    seeds, rest = records[: (k + 1) // 2], records[(k + 1) // 2 :]
    numbers = record_queries.numbers_of(connection, [record.record_id for record in seeds])
    near = [n for n, _ in neighbours(connection, list(numbers.values()), CAUSAL)]
    found = record_queries.records_by_number(connection, near)
    linked = [found[n] for n in near if n in found]
    return list({record.record_id: record for record in (*seeds, *linked, *rest)}.values())


def _fused(
    connection: Connection, records: Sequence[Record], hits: Sequence[MessageHit], rrf_k: int
) -> list[Fact]:
    scores: dict[str, float] = defaultdict(float)
    facts: dict[str, Fact] = {}
    fact_ids: dict[str, str] = {}  # by message: the fact of the record that represents it
    for rank, record in enumerate(records, 1):
        fact = fact_of_record(record)
        facts[fact.id] = fact
        scores[fact.id] += 1 / (rrf_k + rank)
        fact_ids |= {m: fact_ids.get(m, fact.id) for m in record.message_ids}
    outdated = record_queries.outdated(connection, [hit.position for hit in hits])
    for rank, hit in enumerate(hits, 1):
        key = fact_ids.get(hit.message_id)
        if key is None:
            fact = fact_of_message(hit, hit.position in outdated)
            facts[fact.id], key = fact, fact.id
        scores[key] += 1 / (rrf_k + rank)
    return sorted(facts.values(), key=lambda fact: -scores[fact.id])


def _by_time(facts: Sequence[Fact], k: int) -> list[Fact]:
    """The `k` best facts, of which events come before others; then in the order of time."""
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


def fact_of_message(message: MessageHit | Message, outdated: bool = False) -> Fact:
    """A message as a fact; a long one is cut to its best part where that is known."""
    if isinstance(message, MessageHit):
        message_id, best, signals = message.message_id, message.excerpt, message.signals or {}
    else:
        message_id, best, signals = message.id, message.text, {}
    return Fact(
        id=f"message:{message_id}",
        text=message.text if len(message.text) <= LONGEST else f"… {best[:LONGEST]} …",
        at=message.at,
        speaker=message.name or message.role,
        message_ids=[message_id],
        likeness=signals.get("dense", 0.0),
        outdated=outdated,
    )


def interleaved(lists: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The best fact of every list, then the second best of each, and so on, each fact once."""
    facts: dict[str, Fact] = {}
    for fact in chain.from_iterable(zip_longest(*lists)):
        if fact is not None:
            facts.setdefault(fact.id, fact)
    return list(facts.values())


def hits_by_id(connection: Connection, ids: Iterable[str]) -> dict[str, MessageHit]:
    """The messages behind facts, by their ids; unknown ids are left out."""
    wanted = list(dict.fromkeys(ids))
    numbers = record_queries.message_numbers(connection, wanted)
    return {
        message_id: MessageHit(
            message_id=message_id,
            score=0.0,
            position=numbers[message_id][0],
            excerpt=message.text,
            **message.model_dump(include={"session_id", "role", "name", "at", "text"}),
        )
        for message_id, message in message_queries.messages_by_id(connection, wanted).items()
    }


def facts_by_number(room: Room, numbers: Iterable[int]) -> list[Fact]:
    """Records that are true now, as facts, in the order given."""
    wanted = list(dict.fromkeys(numbers))
    with room.database.read_transaction() as connection:
        current = record_queries.current(connection, wanted)
        found = record_queries.records_by_number(connection, current)
    return [fact_of_record(found[n]) for n in wanted if n in found]


def messages_behind(room: Room, facts: Iterable[Fact]) -> dict[str, MessageHit]:
    """The facts' messages that are stored, by id."""
    ids = [message_id for fact in facts for message_id in fact.message_ids]
    if not ids:
        return {}
    return room.database.read(lambda connection: hits_by_id(connection, ids))


def evidence(quoted: Iterable[Fact], messages: dict[str, MessageHit]) -> list[MessageHit]:
    """The messages behind the quoted facts, best first, each once."""
    ids = dict.fromkeys(message_id for fact in quoted for message_id in fact.message_ids)
    found = [messages[message_id] for message_id in ids if message_id in messages]
    return [hit.model_copy(update={"score": 1 / place}) for place, hit in enumerate(found, 1)]


class MemorySearch:
    """The search in the memory of a run's user, for the steps of a graph."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def search(self, query: str, k: int, relation: Relation, run: "StepRun") -> list[Fact]:
        """The best facts for a query; none where the user has no memory yet."""
        services = self._services
        return await services.in_known_room(
            run.user,
            lambda room: find_facts(room, services.embedder, services.settings, query, k, relation),
            [],
        )

    async def likeness(self, text: str, others: Sequence[str], run: "StepRun") -> float:
        """The greatest cosine of a text with the others; by spelling where the embedder fails."""
        if not others:
            return 0.0
        try:
            vectors = await asyncio.to_thread(self._services.embedder.embed, [text, *others])
        except EmbeddingError:
            return spelling(text, others)
        return float((vectors[1:] @ vectors[0]).max())


def spelling(text: str, others: Sequence[str]) -> float:
    """The greatest similarity of a text with the others by spelling, whatever the word order."""
    return max((fuzz.token_sort_ratio(text, other) / 100 for other in others), default=0.0)
