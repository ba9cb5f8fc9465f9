"""reconcile: new records meet older ones (NapMem 5.2): store, skip, update or merge.

Exact duplicates are found by code. Only records with near neighbours are shown to the model, and
only the ids it was shown are taken from its answer; whatever is missing or odd is stored.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.extraction.state import (
    Candidate,
    Decision,
    ExtractionDependencies,
    ExtractionState,
    usage_of,
)
from langmem_graph.extraction.supersede import settle
from langmem_graph.llm import answer_schemas
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.formatting import as_data, plain_id
from langmem_graph.retrieval.record_search import rank_records
from langmem_graph.retrieval.search_common import Depths, SearchNotes, query_vector
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import time_key
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.add_records import hash_of
from langmem_graph.storage.room import Room


@dataclass
class Compared:
    """What the model is shown of the older records."""

    known: dict[int, int] = field(default_factory=dict)
    """Candidates that say exactly what a record says, by place, with that record's number."""
    neighbours: dict[int, list[int]] = field(default_factory=dict)
    """Older records near a candidate, by place; nearest first."""
    likeness: dict[tuple[int, int], float] = field(default_factory=dict)
    """Cosine of a candidate (by place) and a record (by number)."""
    records: dict[int, Record] = field(default_factory=dict)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    """Subject and name of the attributes that the candidates' subjects have."""


async def reconcile(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Decide about each candidate."""
    rows, usage = state.get("candidates", []), usage_of(state)
    services = deps.services
    compared = await services.in_room(
        run.user, lambda room: compare(room, services.embedder, services.settings, rows)
    )
    decisions = [
        Decision(action="known", targets=[compared.known[place]])
        if place in compared.known
        else Decision(action="store")
        for place in range(len(rows))
    ]
    shown = [place for place in compared.neighbours if place not in compared.known]
    if shown:
        question, aliases = _question(rows, shown, compared)
        prompt = load_prompt("reconcile")
        answer = await deps.runner.ask(answer_schemas.Reconciliation, prompt, question, usage)
        for proposal in answer.decisions if answer else []:
            place = aliases.places.get(proposal.record)
            if place is not None:
                decisions[place] = _taken(proposal, place, aliases, compared)
    floor = services.settings.extraction.same_floor
    candidates, settled = await services.in_room(
        run.user, lambda room: settle(room, rows, decisions, floor)
    )
    return {"candidates": candidates, "decisions": settled, "usage": usage}


def compare(
    room: Room, embedder: Embedder, settings: Settings, rows: Sequence[Candidate]
) -> Compared:
    """Find exact duplicates and near neighbours of the candidates."""
    found = Compared()
    hashes = [hash_of(row.text, row.subject, _when(row)) for row in rows]
    depths = Depths(4 * settings.extraction.neighbours, 4 * settings.extraction.neighbours)
    with room.database.read_transaction() as connection:
        same = record_writes.active_with_hash(connection, hashes)
        found.known = {p: same[h] for p, h in enumerate(hashes) if h in same}
        for place, row in enumerate(rows):
            if place in found.known:
                continue
            vector = query_vector(room, embedder, row.text, SearchNotes())
            ranked = rank_records(room, connection, row.text, vector, depths, SearchNotes())
            near = [
                (ranked.numbers[p], float(ranked.signals["dense"][p]))
                for p in ranked.best(settings.extraction.neighbours)
            ]
            near = [
                (n, cosine) for n, cosine in near if cosine >= settings.extraction.neighbour_floor
            ]
            if near:
                found.neighbours[place] = [n for n, _ in near]
                found.likeness |= {(place, n): cosine for n, cosine in near}
        _limit(found, settings.extraction.neighbours_in_all)
        numbers = {n for near in found.neighbours.values() for n in near} | set(
            found.known.values()
        )
        found.records = record_queries.records_by_number(connection, numbers)
        subjects = {record_writes.plain(row.subject) for row in rows}
        found.attributes = record_queries.attributes_of(connection, subjects)
    return found


def _when(row: Candidate) -> str:
    return time_key(row.facet, row.event_time)


def _limit(found: Compared, most: int) -> None:
    """Keep the nearest neighbours of all candidates together."""
    nearest = sorted(found.likeness, key=lambda pair: -found.likeness[pair])
    kept: set[int] = set()
    for _, n in nearest:
        if len(kept) < most:
            kept.add(n)
    limited = {place: [n for n in near if n in kept] for place, near in found.neighbours.items()}
    found.neighbours = {place: near for place, near in limited.items() if near}


@dataclass(frozen=True)
class _Aliases:
    places: dict[str, int]
    records: dict[str, int]
    attributes: dict[str, str]


def _question(
    rows: Sequence[Candidate], shown: list[int], compared: Compared
) -> tuple[str, _Aliases]:
    older = sorted({n for place in shown for n in compared.neighbours[place]})
    aliases = _Aliases(
        {f"r{i}": place for i, place in enumerate(shown, 1)},
        {f"n{i}": n for i, n in enumerate(older, 1)},
        {f"a{i}": name for i, (_, name) in enumerate(compared.attributes, 1)},
    )
    old_lines = [f"{a}: {_line(compared.records[n])}" for a, n in aliases.records.items()]
    new_lines = [f"{a}: {_new_line(rows[p])}" for a, p in aliases.places.items()]
    attributes = [
        f"{alias}: {_about(subject, name)}"
        for alias, (subject, name) in zip(aliases.attributes, compared.attributes, strict=True)
    ]
    question = "\n".join(
        ["Older records:", *old_lines, "Attributes:", *attributes, "New records:", *new_lines]
    )
    return question, aliases


def _line(record: Record) -> str:
    about = _about(record.subject, record.attribute)
    return f"{record.said_at:%Y-%m-%d} ({about}) {as_data(record.text)}"


def _new_line(row: Candidate) -> str:
    return f"({_about(row.subject, row.attribute)}) {as_data(row.text)}"


def _about(subject: str | None, attribute: str | None) -> str:
    return f"{plain_id(subject or '?')} / {plain_id(attribute or '?')}"


def _taken(
    decision: answer_schemas.Decision, place: int, aliases: _Aliases, compared: Compared
) -> Decision:
    """The model's decision about one candidate; targets it was not near are dropped."""
    near = compared.neighbours[place]
    named = [aliases.records[t] for t in decision.targets if t in aliases.records]
    targets = [n for n in dict.fromkeys(named) if n in near]
    attribute = aliases.attributes.get(decision.attribute, decision.attribute)
    if re.fullmatch(r"a\d+", attribute):  # an alias that was not shown
        attribute = ""
    return Decision(
        action=decision.action if targets else "store",
        targets=targets,
        attribute=attribute,
        text=decision.text,
        likeness={n: compared.likeness[place, n] for n in targets},
    )
