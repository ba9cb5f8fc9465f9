"""commit: records, their history and "these messages were read", in one transaction.

A killed process has either done all of it or nothing; then the batch is read again.
"""

from sqlalchemy import Connection

from langmem_graph.services import Services
from langmem_graph.steps import StepRun
from langmem_graph.store import ledger, reading, record_lookups, records
from langmem_graph.store.ledger import RECORDS
from langmem_graph.store.outbox import drain
from langmem_graph.store.records import REFINES, Change
from langmem_graph.store.room import Room
from langmem_graph.write.add_records import Draft, UnusableRecordError, draft, with_free_id
from langmem_graph.write.batches import TURNS_READ
from langmem_graph.write.extract import SCENE
from langmem_graph.write.state import (
    Candidate,
    Counts,
    Decision,
    ExtractionDependencies,
    ExtractionState,
    counts_of,
)

MADE_BY = "model"
_FIELDS = {"text", "kind", "facet", "project", "subject", "attribute", "entities", "values"}
_COUNTED = {"store": "stored", "update": "updated", "merge": "merged"}


async def commit(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Store what was decided, then embed it."""
    services = deps.services

    def work(room: Room) -> ExtractionState:
        with room.database.writing() as connection:
            changed, counts = _commit(connection, services, state)
        settings = services.settings
        rows = range(min(changed, default=0), max(changed, default=-1) + 1)
        drain(room, services.embedder, settings, RECORDS, rows, at_least=settings.index_batch)
        return {"changed": changed, "counts": counts}

    return await services.in_room(run.user, work)


def _commit(
    connection: Connection, services: Services, state: ExtractionState
) -> tuple[list[int], Counts]:
    """The records that are new or have changed, and what the batch came to."""
    batch, by = state["batch"], state["claimed_by"]
    ours = batch is not None and reading.still_claimed(connection, batch.items, by=by)
    if batch is None or not ours or reading.generation(connection) != state["generation"]:
        reading.free_claims_of(connection, by)  # read by another, or partly forgotten
        return [], counts_of(state)
    counts, made = counts_of(state).plus(read=len(batch.items)), list[list[int]]()
    decisions = state.get("decisions", [])
    for candidate, decision in zip(state.get("candidates", []), decisions, strict=True):
        changed, counts = _carry_out(connection, services, candidate, decision, counts)
        made.append(changed)
    _chain(connection, decisions, made)
    reading.mark_read(connection, batch.items)
    turns = int(ledger.get_meta(connection, TURNS_READ) or 0) + batch.turns
    ledger.set_meta(connection, TURNS_READ, str(turns))
    ledger.set_meta(connection, SCENE, state.get("scene", ""))
    return sorted({n for changed in made for n in changed}), counts


def _chain(connection: Connection, decisions: list[Decision], made: list[list[int]]) -> None:
    """Of several new values of one thing, each takes the place of the one before."""
    for place, decision in enumerate(decisions):
        for earlier in decision.replaces:
            if made[place] and made[earlier]:
                facts = record_lookups.facts_of(connection, [made[place][0]])
                at = record_lookups.aware(facts[made[place][0]].valid_from)
                change = Change.new(MADE_BY, "said later in the same conversation")
                records.supersede(connection, made[earlier][0], made[place][0], at, change)


def _carry_out(
    connection: Connection,
    services: Services,
    candidate: Candidate,
    decision: Decision,
    counts: Counts,
) -> tuple[list[int], Counts]:
    """One candidate; returns the records that are new or have changed, and the counts after it."""
    if decision.reason:
        counts = counts.plus(decision.reason)
    if decision.action == "known":
        for n in decision.targets:
            records.add_sources(connection, n, candidate.source_ns)
        return [], counts.plus(known=1)
    try:
        new = _draft(connection, services, candidate)
    except UnusableRecordError as problem:
        return [], counts.plus(str(problem), refused=1)
    same = records.active_with_hash(connection, [new.content_hash]).get(new.content_hash)
    if same is not None:
        records.add_sources(connection, same, new.sources)
        return [], counts.plus(known=1)
    changed = _insert(connection, with_free_id(connection, new), decision)
    return changed, counts.plus(**{_COUNTED[decision.action]: 1})


def _insert(connection: Connection, new: Draft, decision: Decision) -> list[int]:
    change = Change.new(MADE_BY, decision.reason)
    n = records.insert_record(connection, new.record, new.content_hash, new.sources, change)
    for target in record_lookups.active(connection, decision.targets):
        records.supersede(connection, target, n, new.record.valid_from, change)
        if decision.action == "merge":
            cited = record_lookups.citing(connection, [target]).get(target, [])
            records.add_sources(connection, n, cited)
    for target in decision.refines:
        records.add_link(connection, n, target, REFINES)
    return [n, *decision.targets]


def _draft(connection: Connection, services: Services, candidate: Candidate) -> Draft:
    messages = record_lookups.message_numbers(connection, candidate.source_ids)
    given = candidate.model_dump(include=_FIELDS)
    fields = {name: value for name, value in given.items() if value}
    fields |= {"confirmation": candidate.confirmation, "event_time": candidate.event_time}
    fields["source_message_ids"] = candidate.source_ids
    return draft(fields, messages, services.settings.max_record_chars, MADE_BY)
