"""reconcile: compare the candidates with older records: store, skip, update or merge (NapMem 5.2).

Code finds exact duplicates. Only candidates with similar older records are shown to the model, and
only aliases that it was shown are taken from its answer; a candidate without a decision is stored.
`supersede_records` then checks the decisions.
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
from langmem_graph.extraction.supersede_records import settle
from langmem_graph.llm import answer_schemas
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import as_data, plain_id
from langmem_graph.retrieval.record_search import rank_records
from langmem_graph.retrieval.search_common import Depths, SearchNotes, query_vector
from langmem_graph.runtime import StepRun
from langmem_graph.schedule.times import time_key
from langmem_graph.schemas import Record
from langmem_graph.settings import Settings
from langmem_graph.storage import record_queries, record_writes
from langmem_graph.storage.add_records import hash_of
from langmem_graph.storage.user_room import Room


@dataclass
class _Comparison:
    """The older records that matter for the candidates; a candidate is named by its place."""

    known: dict[int, int] = field(default_factory=dict)
    """By candidate, the number of a record that says exactly the same."""
    neighbours: dict[int, list[int]] = field(default_factory=dict)
    """By candidate, the numbers of similar older records, nearest first."""
    likeness: dict[tuple[int, int], float] = field(default_factory=dict)
    """Cosine of a candidate (by place) and a record (by number)."""
    records: dict[int, Record] = field(default_factory=dict)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    """Subject and name of the attributes that the candidates' subjects have."""


async def reconcile(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Decide about each candidate."""
    candidates, usage = state.get("candidates", []), usage_of(state)
    services = deps.services
    compared = await services.in_room(
        run.user, lambda room: compare(room, services.embedder, services.settings, candidates)
    )
    decisions = [Decision(action="store") for _ in candidates]
    for duplicate, n in compared.known.items():
        decisions[duplicate] = Decision(action="known", targets=[n])
    if compared.neighbours:
        question, aliases = _question(candidates, compared)
        prompt = load_prompt("reconcile")
        answer = await deps.runner.ask(answer_schemas.Reconciliation, prompt, question, usage)
        for proposal in answer.decisions if answer else []:
            place = aliases.places.get(proposal.record)
            if place is not None:
                decisions[place] = _decision(proposal, place, aliases, compared)
    floor = services.settings.extraction.same_floor
    candidates, decisions = await services.in_room(
        run.user, lambda room: settle(room, candidates, decisions, floor)
    )
    return {"candidates": candidates, "decisions": decisions, "usage": usage}


def compare(
    room: Room, embedder: Embedder, settings: Settings, candidates: Sequence[Candidate]
) -> _Comparison:
    """Find exact duplicates and similar records of the candidates."""
    compared, options = _Comparison(), settings.extraction
    depths = Depths(4 * options.neighbours, 4 * options.neighbours)
    hashes = [hash_of(c.text, c.subject, time_key(c.facet, c.event_time)) for c in candidates]
    with room.database.read_transaction() as connection:
        equal = record_writes.active_with_hash(connection, hashes)
        compared.known = {p: equal[h] for p, h in enumerate(hashes) if h in equal}
        for place, candidate in enumerate(candidates):
            if place in compared.known:
                continue
            vector = query_vector(room, embedder, candidate.text, SearchNotes())
            ranked = rank_records(room, connection, candidate.text, vector, depths, SearchNotes())
            for best in ranked.best(options.neighbours):
                n, cosine = ranked.numbers[best], float(ranked.signals["dense"][best])
                if cosine >= options.neighbour_floor:
                    compared.neighbours.setdefault(place, []).append(n)
                    compared.likeness[place, n] = cosine
        _limit(compared, options.neighbours_in_all)
        numbers = {n for near in compared.neighbours.values() for n in near}
        compared.records = record_queries.records_by_number(connection, numbers)
        subjects = {record_writes.plain(candidate.subject) for candidate in candidates}
        compared.attributes = record_queries.attributes_of(connection, subjects)
    return compared


def _limit(compared: _Comparison, most: int) -> None:
    """Keep only the records that are nearest to any candidate."""
    nearest = sorted(compared.likeness, key=lambda pair: -compared.likeness[pair])
    kept = set(list(dict.fromkeys(n for _, n in nearest))[:most])
    limited = {p: [n for n in near if n in kept] for p, near in compared.neighbours.items()}
    compared.neighbours = {place: near for place, near in limited.items() if near}


@dataclass(frozen=True)
class _Aliases:
    """What the aliases of the prompt stand for."""

    places: dict[str, int]
    records: dict[str, int]
    attributes: dict[str, str]


def _question(candidates: Sequence[Candidate], compared: _Comparison) -> tuple[str, _Aliases]:
    older = sorted({n for near in compared.neighbours.values() for n in near})
    aliases = _Aliases(
        {f"r{i}": place for i, place in enumerate(compared.neighbours, 1)},
        {f"n{i}": n for i, n in enumerate(older, 1)},
        {f"a{i}": name for i, (_, name) in enumerate(compared.attributes, 1)},
    )
    named = ((alias, compared.records[n]) for alias, n in aliases.records.items())
    old_lines = [f"{alias}: {old.said_at:%Y-%m-%d} {_statement(old)}" for alias, old in named]
    new_lines = [f"{a}: {_statement(candidates[p])}" for a, p in aliases.places.items()]
    attributes = [
        f"{alias}: {_about(subject, name)}"
        for alias, (subject, name) in zip(aliases.attributes, compared.attributes, strict=True)
    ]
    question = "\n".join(
        ["Older records:", *old_lines, "Attributes:", *attributes, "New records:", *new_lines]
    )
    return question, aliases


def _statement(said: Record | Candidate) -> str:
    return f"({_about(said.subject, said.attribute)}) {as_data(said.text)}"


def _about(subject: str | None, attribute: str | None) -> str:
    return f"{plain_id(subject or '?')} / {plain_id(attribute or '?')}"


def _decision(
    proposal: answer_schemas.Decision, place: int, aliases: _Aliases, compared: _Comparison
) -> Decision:
    """The model's decision about one candidate, without targets that are not its neighbours."""
    near = compared.neighbours[place]
    named = [aliases.records[t] for t in proposal.targets if t in aliases.records]
    targets = [n for n in dict.fromkeys(named) if n in near]
    attribute = aliases.attributes.get(proposal.attribute, proposal.attribute)
    if re.fullmatch(r"a\d+", attribute):  # an alias that was not shown
        attribute = ""
    return Decision(
        action=proposal.action if targets else "store",
        targets=targets,
        attribute=attribute,
        text=proposal.text,
        likeness={n: compared.likeness[place, n] for n in targets},
    )
