"""Facts: records and messages in one form, the search for them, and the messages behind
them.

`find_facts` searches both and fuses the two lists (reciprocal rank fusion); a message
whose record is found too is represented by that record. What no longer holds is found
too, with labels: of one chain the newest record and at most one older fact, which count
as one; all of it where a planner reads it, or values over time are asked for.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, zip_longest
from typing import Literal

from langmem_graph.results import Fact, Relation
from langmem_graph.retrieval.joined_search import each_room, search_different
from langmem_graph.retrieval.message_search import as_hit
from langmem_graph.retrieval.record_search import RankedRecords, ranked_chains
from langmem_graph.retrieval.search_common import RoomSearch, UserSearch
from langmem_graph.schedule.times import event_in, zone_of
from langmem_graph.schemas import MessageHit, Record
from langmem_graph.storage import record_queries, superseded_labels
from langmem_graph.storage.graph_neighbours import CAUSAL, neighbours
from langmem_graph.storage.reading import Reading

_OF_RECORD = set(
    "record_id message_ids kind subject attribute confirmation origin room "
    "author".split()
)
Placed = tuple[str | None, str]
"""A shared room, or None, and the id of a message there."""
MOST_OLDER = 6
"""Older facts of one chain, of which the newest count; ours."""
LONGEST = 600  # characters of a fact; a longer message is cut to its best part


def placed(hit: MessageHit) -> Placed:
    """Where a message is; two rooms may have the same id."""
    return hit.room, hit.message_id


def fact_id(layer: Literal["record", "message"], room: str | None, own_id: str) -> str:
    """The id of the fact that is a record or a message; in a shared room it names the
    room.
    """
    return (
        f"{layer}:{own_id}" if room is None else f"{layer}@{json.dumps(room)}:{own_id}"
    )


def find_facts(
    search: UserSearch,
    query: str,
    k: int,
    relation: Relation = "semantic",
    *,
    history: bool = False,
) -> list[Fact]:
    """The `k` best facts for a query, best first; the facts of one chain count as one.

    Args:
        relation: `entity` searches by words alone, `causal` adds causes and effects,
            `temporal` prefers events and orders by time (Goal-Mem 2.2).
        history: whether one hit of a chain brings the whole chain; so it does for
            `temporal`.
    """
    older = MOST_OLDER if history or relation == "temporal" else 1
    settings = search.settings
    depth = 2 * k if relation == "temporal" else k
    signal: Literal["words"] | None = "words" if relation == "entity" else None
    foreign = settings.context.foreign_share
    hits, ranked = search_different(
        search.by(signal), query, depth, past=True, foreign=foreign
    )
    own = {one.key: found for one, found in ranked}
    causes = relation == "causal" and settings.reasoning.use_causal_edges

    def read(one: RoomSearch, connection: Reading) -> list[tuple[float, Fact]]:
        records = _scored(connection, own[one.key], depth, signal, older)
        return _with_causes(connection, records, k) if causes else records

    of_rooms = [facts for _, facts in each_room((one for one, _ in ranked), read)]
    scored = [fact for facts in of_rooms for fact in facts]
    if len(of_rooms) > 1:  # each room's are in order already
        scored.sort(key=lambda one: -one[0])
    facts = _fused([fact for _, fact in scored], hits, settings.ranking.rrf_k)
    if relation == "temporal":
        return _by_time(facts, k)
    return first_chains(facts, k, older)


def _scored(
    connection: Reading,
    ranked: RankedRecords,
    depth: int,
    signal: Literal["words"] | None,
    older: int,
) -> list[tuple[float, Fact]]:
    """The records of the best chains as facts, each with the score of its chain's best
    one.

    Of more than one `older` record, also those that were not found.
    """
    near = dict(zip(ranked.numbers, ranked.signals.get("dense", ()), strict=False))
    values = ranked.signals[signal] if signal and ranked.numbers else ranked.scores
    scores = dict(zip(ranked.numbers, values.tolist(), strict=True))
    chains = ranked_chains(connection, ranked, depth, signal)
    score_of = {n: scores[chain[-1]] for chain in chains for n in chain}
    if older > 1:
        held = superseded_labels.held_before(connection, [c[0] for c in chains])
        # what was found and corrected held at no time
        whole = (dict.fromkeys((*chain, *held[chain[0]])) for chain in chains)
        chains = [tuple(chain)[: 1 + older] for chain in whole]
    found = superseded_labels.labelled_records(
        connection, [n for chain in chains for n in chain]
    )
    return [
        (score_of[chain[0]], fact_of_record(found[n], float(near.get(n, 0.0))))
        for chain in chains
        for n in chain
        if n in found
    ]


def _with_causes(
    connection: Reading, records: list[tuple[float, Fact]], k: int
) -> list[tuple[float, Fact]]:
    """The first half of the records, their causes and effects, then the other
    records.
    """
    seeds = records[: (k + 1) // 2]
    rest = records[(k + 1) // 2 :]
    ids = [fact.record_id for _, fact in seeds if fact.record_id]
    near = list(record_queries.numbers_of(connection, ids).values())
    near = [n for n, _ in neighbours(connection, near, CAUSAL)]
    found = record_queries.records_by_number(connection, near)
    last = seeds[-1][0] if seeds else 0.0
    linked = [(last, fact_of_record(found[n])) for n in near if n in found]
    return list({one[1].id: one for one in (*seeds, *linked, *rest)}.values())


def _fused(facts: Sequence[Fact], hits: Sequence[MessageHit], rrf_k: int) -> list[Fact]:
    of_message = {(f.room, m): f for f in reversed(facts) for m in f.message_ids}
    found = [of_message.get(placed(hit)) or fact_of_message(hit) for hit in hits]
    return by_reciprocal_rank([facts, found], rrf_k)


def by_reciprocal_rank(lists: Iterable[Sequence[Fact]], rrf_k: int) -> list[Fact]:
    """Facts of several lists by reciprocal rank, best first, each with its greatest
    likeness.
    """
    scores: dict[str, float] = defaultdict(float)
    facts: dict[str, Fact] = {}
    for found in lists:
        for rank, fact in enumerate(found, 1):
            scores[fact.id] += 1 / (rrf_k + rank)
            facts[fact.id] = max(
                facts.get(fact.id, fact), fact, key=lambda one: one.likeness
            )
    return sorted(facts.values(), key=lambda fact: -scores[fact.id])


def first_chains(facts: Iterable[Fact], k: int, older: int = 1) -> list[Fact]:
    """The facts of the first `k` chains, in the order given.

    Of one chain they are the newest record and the first `older` facts that no longer
    hold. A fact of no chain counts as one.
    """
    kept: dict[str, list[Fact]] = {}
    order: list[Fact] = []
    for fact in facts:
        chain = _chain(fact)
        if chain not in kept and len(kept) == k:
            continue
        before = [one for one in kept.get(chain, ()) if _own(one) != chain]
        if fact.outdated and _own(fact) != chain and len(before) >= older:
            continue
        kept.setdefault(chain, []).append(fact)
        order.append(fact)
    return order


def _chain(fact: Fact) -> str:
    """What the facts of one chain have in common: the id of its newest record."""
    if fact.outdated and len(fact.labels) == 1:
        return fact_id("record", fact.room, fact.labels[0].newest_id)
    return _own(fact)


def _own(fact: Fact) -> str:
    """The id of its record, else its own."""
    return fact_id("record", fact.room, fact.record_id) if fact.record_id else fact.id


def _by_time(facts: Sequence[Fact], k: int) -> list[Fact]:
    """The `k` best facts, of which events come before others; then in the order of
    time.
    """
    events_first = sorted(facts, key=lambda fact: fact.kind != "event")
    best = first_chains(events_first, k, MOST_OLDER)
    return sorted(best, key=lambda fact: fact.at or datetime.min.replace(tzinfo=UTC))


def fact_of_record(record: Record, likeness: float = 0.0) -> Fact:
    """A record as a fact."""
    event = event_in(record.event_time)
    return Fact(
        id=fact_id("record", record.room, record.record_id),
        text=record.text[:LONGEST],
        at=record.said_at,
        labels=record.labels,
        likeness=likeness,
        day=event.start.astimezone(zone_of(event.time_zone)).date() if event else None,
        **record.model_dump(include=_OF_RECORD),
    )


def fact_of_message(hit: MessageHit) -> Fact:
    """A message as a fact; a long one is cut to its best part."""
    return Fact(
        id=fact_id("message", hit.room, hit.message_id),
        room=hit.room,
        author=hit.author,
        text=hit.text if len(hit.text) <= LONGEST else f"… {hit.excerpt[:LONGEST]} …",
        at=hit.at,
        speaker=hit.name or hit.role,
        origin=hit.origin,
        message_ids=[hit.message_id],
        likeness=(hit.signals or {}).get("dense", 0.0),
        labels=hit.labels,
    )


def still_says(text: str, stored: str) -> bool:
    """Whether a fact's text is that of the message or record which is stored now under
    the same id; of a long one it is a part.
    """
    if len(stored) <= LONGEST:
        return text == stored
    return text.removeprefix("… ").removesuffix(" …") in stored


def interleaved(lists: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The best fact of every list, then the second best of each, and so on, each fact
    once.
    """
    facts: dict[str, Fact] = {}
    for fact in chain.from_iterable(zip_longest(*lists)):
        if fact is not None:
            facts.setdefault(fact.id, fact)
    return list(facts.values())


def decide(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The value that current, settled, newer or confirmed facts support; None: nothing
    decides.

    What was proposed and not agreed to (a draft) gives way first. Between statements of
    the user's own the newer one counts, whatever their grade.
    """
    left = _passing(values, lambda fact: not fact.outdated)
    left = _passing(left, lambda fact: fact.confirmation != "draft")
    for rest in (left, _passing(left, lambda fact: fact.confirmation != "inferred")):
        decided = next(iter(rest)) if len(rest) == 1 else _newest(rest)
        if decided is not None:
            return decided
    return None


def _passing(
    values: Mapping[str, Sequence[Fact]], test: Callable[[Fact], bool]
) -> Mapping[str, Sequence[Fact]]:
    """The values with the facts that pass the test; all of them when none passes."""
    passing = {value: list(filter(test, facts)) for value, facts in values.items()}
    return {value: facts for value, facts in passing.items() if facts} or values


def _newest(values: Mapping[str, Sequence[Fact]]) -> str | None:
    """The newest, where all are about one attribute in one room and the dates
    differ.
    """
    every = [fact for facts in values.values() for fact in facts]
    about = {(fact.subject, fact.attribute) for fact in every}
    if (
        len(about) != 1
        or not all(next(iter(about)))
        or len({fact.room for fact in every}) > 1
    ):
        return None
    latest = {
        value: max(fact.at or datetime.min.replace(tzinfo=UTC) for fact in facts)
        for value, facts in values.items()
    }
    newest = [value for value, at in latest.items() if at == max(latest.values())]
    return newest[0] if len(newest) == 1 else None


def hits_by_number(
    connection: Reading, numbers: Iterable[int]
) -> dict[int, MessageHit]:
    """Stored messages as hits, by number."""
    found = superseded_labels.labelled_messages(connection, numbers)
    return {n: as_hit(message, n) for n, message in found.items()}


def hits_by_id(connection: Reading, facts: Iterable[Fact]) -> dict[Placed, MessageHit]:
    """The facts' messages that are stored, by room and id."""
    ids = {message_id for fact in facts for message_id in fact.message_ids}
    numbers = record_queries.message_numbers(connection, ids)
    hits = hits_by_number(connection, [n for n, _, _ in numbers.values()])
    return {placed(hit): hit for hit in hits.values()}


def facts_by_number(connection: Reading, numbers: Iterable[int]) -> dict[int, Fact]:
    """Records that are true now, as facts by number, in the order given."""
    wanted = list(dict.fromkeys(numbers))
    found = record_queries.records_by_number(
        connection, record_queries.current(connection, wanted)
    )
    return {n: fact_of_record(found[n]) for n in wanted if n in found}


def evidence(
    quoted: Iterable[Fact], messages: dict[Placed, MessageHit]
) -> list[MessageHit]:
    """The messages behind the quoted facts, best first, each once."""
    ids = dict.fromkeys(
        (fact.room, message) for fact in quoted for message in fact.message_ids
    )
    found = [messages[one] for one in ids if one in messages]
    return [
        hit.model_copy(update={"score": 1 / place})
        for place, hit in enumerate(found, 1)
    ]
