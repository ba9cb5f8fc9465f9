"""commit: store a batch's records, their history and the end of its pending state (NapMem 5.2).

All of it is one transaction: a killed process has done everything or nothing, and in the second
case the batch is extracted again.
"""

from sqlalchemy import Connection

from langmem_graph.extraction.claim_batch import TURNS_READ
from langmem_graph.extraction.extract_records import SCENE
from langmem_graph.extraction.state import (
    Candidate,
    Counts,
    Decision,
    ExtractionDependencies,
    ExtractionState,
    counts_of,
)
from langmem_graph.runtime import StepRun
from langmem_graph.storage import (
    pending_messages,
    record_queries,
    record_writes,
    tables_and_migrations,
)
from langmem_graph.storage.add_records import Draft, UnusableRecordError, draft, with_free_id
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.record_writes import REFINES, Change
from langmem_graph.storage.tables_and_migrations import RECORDS
from langmem_graph.storage.user_room import Room

MADE_BY = "model"
_RECORD_FIELDS = {"text", "kind", "facet", "project", "subject", "attribute", "entities", "values"}
_COUNT_OF_ACTION = {"store": "stored", "update": "updated", "merge": "merged"}


async def commit(
    deps: ExtractionDependencies, state: ExtractionState, run: StepRun
) -> ExtractionState:
    """Carry out the decisions, then embed the records that are new or have changed."""
    services = deps.services

    def work(room: Room) -> ExtractionState:
        with room.database.write_transaction() as connection:
            changed, counts = _commit(connection, services, state)
        services.embed_new(room, RECORDS, changed)
        return {"changed": changed, "counts": counts}

    return await services.in_room(run.user, work)


def _commit(
    connection: Connection, services: Services, state: ExtractionState
) -> tuple[list[int], Counts]:
    """Returns the records that are new or have changed, and the counts of the batch."""
    batch, by = state["batch"], state["claimed_by"]
    ours = batch is not None and pending_messages.still_claimed(connection, batch.items, by=by)
    if batch is None or not ours or pending_messages.generation(connection) != state["generation"]:
        pending_messages.free_claims_of(
            connection, by
        )  # extracted by another run, or partly forgotten
        return [], counts_of(state)
    counts, made = counts_of(state).plus(read=len(batch.items)), list[list[int]]()
    decisions = state.get("decisions", [])
    for candidate, decision in zip(state.get("candidates", []), decisions, strict=True):
        changed, counts = _carry_out(connection, services, candidate, decision, counts)
        made.append(changed)
    _chain(connection, decisions, made)
    pending_messages.mark_read(connection, batch.items)
    turns = int(tables_and_migrations.get_meta(connection, TURNS_READ) or 0) + batch.turns
    tables_and_migrations.set_meta(connection, TURNS_READ, str(turns))
    tables_and_migrations.set_meta(connection, SCENE, state.get("scene", ""))
    return sorted({n for changed in made for n in changed}), counts


def _chain(connection: Connection, decisions: list[Decision], made: list[list[int]]) -> None:
    """Let each of several new values of one attribute supersede the one before it."""
    for place, decision in enumerate(decisions):
        for earlier in decision.replaces:
            if made[place] and made[earlier]:
                facts = record_queries.facts_of(connection, [made[place][0]])
                at = record_queries.aware(facts[made[place][0]].valid_from)
                change = Change.new(MADE_BY, "said later in the same conversation")
                record_writes.supersede(connection, made[earlier][0], made[place][0], at, change)


def _carry_out(
    connection: Connection,
    services: Services,
    candidate: Candidate,
    decision: Decision,
    counts: Counts,
) -> tuple[list[int], Counts]:
    """Store one candidate; returns the records that are new or have changed, and the counts."""
    if decision.reason:
        counts = counts.plus(decision.reason)
    if decision.action == "known":
        for n in decision.targets:
            record_writes.add_sources(connection, n, candidate.source_ns)
        return [], counts.plus(known=1)
    try:
        new = _draft(connection, services, candidate)
    except UnusableRecordError as problem:
        return [], counts.plus(str(problem), refused=1)
    equal = record_writes.active_with_hash(connection, [new.content_hash]).get(new.content_hash)
    if equal is not None:  # another candidate of this batch, or a record of another process
        record_writes.add_sources(connection, equal, new.sources)
        return [], counts.plus(known=1)
    changed = _insert(connection, with_free_id(connection, new), decision)
    return changed, counts.plus(**{_COUNT_OF_ACTION[decision.action]: 1})


def _insert(connection: Connection, new: Draft, decision: Decision) -> list[int]:
    """Insert the record and link it with those that it supersedes or refines."""
    change = Change.new(MADE_BY, decision.reason)
    n = record_writes.insert_record(connection, new.record, new.content_hash, new.sources, change)
    for target in record_queries.active(connection, decision.targets):
        record_writes.supersede(connection, target, n, new.record.valid_from, change)
        if decision.action == "merge":
            cited = record_queries.citing(connection, [target]).get(target, [])
            record_writes.add_sources(connection, n, cited)
    for target in decision.refines:
        record_writes.add_link(connection, n, target, REFINES)
    return [n, *decision.targets]


def _draft(connection: Connection, services: Services, candidate: Candidate) -> Draft:
    messages = record_queries.message_numbers(connection, candidate.source_ids)
    given = candidate.model_dump(include=_RECORD_FIELDS)
    fields = {name: value for name, value in given.items() if value}
    fields |= {"confirmation": candidate.confirmation, "event_time": candidate.event_time}
    fields["source_message_ids"] = candidate.source_ids
    return draft(fields, messages, services.settings.storage.max_record_chars, MADE_BY)
