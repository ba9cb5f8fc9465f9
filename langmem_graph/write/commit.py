"""commit: records, their history and "these messages were read", in one transaction.

A killed process has either done all of it or nothing; then the batch is read again.
"""

from typing import Any

from sqlalchemy import Connection

from langmem_graph.services import Services
from langmem_graph.store import ledger, reading, record_lookups, records
from langmem_graph.store.ledger import RECORDS
from langmem_graph.store.outbox import drain
from langmem_graph.store.records import REFINES, Change
from langmem_graph.store.room import Room
from langmem_graph.write.add_records import Draft, UnusableRecordError, draft, with_free_id
from langmem_graph.write.batches import TURNS_READ
from langmem_graph.write.extract import SCENE
from langmem_graph.write.state import ExtractionDependencies, WriteState

MADE_BY = "model"
_FIELDS = ("text", "kind", "facet", "project", "subject", "attribute", "entities", "values")


async def commit(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """Store what was decided, then embed it."""
    services = deps.services

    def work(room: Room) -> WriteState:
        with room.database.writing() as connection:
            changed, done = _commit(connection, deps, state)
        settings, rows = (
            services.settings,
            range(min(changed, default=0), max(changed, default=-1) + 1),
        )
        drain(room, services.embedder, settings, RECORDS, rows, at_least=settings.index_batch)
        return {"changed": changed, "done": done}

    return await services.in_room(state["user_id"], work)


def _commit(
    connection: Connection, deps: ExtractionDependencies, state: WriteState
) -> tuple[list[int], dict[str, Any]]:
    batch, done = state["batch"] or {}, dict(state.get("done") or {})
    counts = dict.fromkeys(("stored", "known", "updated", "merged", "refused"), 0)
    done |= counts | {"read": 0, "reasons": []}
    ours = reading.still_claimed(connection, batch["items"], by=deps.by)
    if not ours or reading.generation(connection) != state["generation"]:
        reading.free_claims_of(connection, deps.by)  # read by another, or partly forgotten
        return [], done
    decisions = state.get("decisions", [])
    made = [
        _carry_out(connection, deps.services, row, decision, done)
        for row, decision in zip(state.get("candidates", []), decisions, strict=True)
    ]
    _chain(connection, decisions, made)
    changed = [n for one in made for n in one]
    reading.mark_read(connection, batch["items"])
    turns = int(ledger.get_meta(connection, TURNS_READ) or 0) + batch["turns"]
    ledger.set_meta(connection, TURNS_READ, str(turns))
    ledger.set_meta(connection, SCENE, str(done.pop("scene", "")))
    return sorted(set(changed)), done | {"read": len(batch["items"])}


def _chain(connection: Connection, decisions: list[dict[str, Any]], made: list[list[int]]) -> None:
    """Of several new values of one thing, each takes the place of the one before."""
    for place, decision in enumerate(decisions):
        for earlier in decision.get("replaces", []):
            if made[place] and made[earlier]:
                facts = record_lookups.facts_of(connection, [made[place][0]])
                at = record_lookups.aware(facts[made[place][0]].valid_from)
                change = Change.new(MADE_BY, "said later in the same conversation")
                records.supersede(connection, made[earlier][0], made[place][0], at, change)


def _carry_out(
    connection: Connection,
    services: Services,
    row: dict[str, Any],
    decision: dict[str, Any],
    done: dict[str, Any],
) -> list[int]:
    """One candidate; returns the records that are new or have changed."""
    if decision["reason"]:
        done["reasons"].append(decision["reason"])
    if decision["action"] == "known":
        for n in decision["targets"]:
            records.add_sources(connection, n, row["source_ns"])
        done["known"] += 1
        return []
    try:
        new = _draft(connection, services, row)
    except UnusableRecordError as problem:
        done["refused"] += 1
        done["reasons"].append(str(problem))
        return []
    same = records.active_with_hash(connection, [new.content_hash]).get(new.content_hash)
    if same is not None:
        records.add_sources(connection, same, new.sources)
        done["known"] += 1
        return []
    return _insert(connection, with_free_id(connection, new), decision, done)


def _insert(
    connection: Connection, new: Draft, decision: dict[str, Any], done: dict[str, Any]
) -> list[int]:
    change = Change.new(MADE_BY, decision["reason"])
    n = records.insert_record(connection, new.record, new.content_hash, new.sources, change)
    for target in record_lookups.active(connection, decision["targets"]):
        records.supersede(connection, target, n, new.record.valid_from, change)
        if decision["action"] == "merge":
            cited = record_lookups.citing(connection, [target]).get(target, [])
            records.add_sources(connection, n, cited)
    for target in decision.get("refines", []):
        records.add_link(connection, n, target, REFINES)
    outcome = {"store": "stored", "update": "updated", "merge": "merged"}[decision["action"]]
    done[outcome] += 1
    return [n, *decision["targets"]]


def _draft(connection: Connection, services: Services, row: dict[str, Any]) -> Draft:
    messages = record_lookups.message_numbers(connection, row["source_ids"])
    fields = {name: row[name] for name in _FIELDS if row.get(name)}
    fields |= {"confirmation": row["confirmation"], "source_message_ids": row["source_ids"]}
    fields["event_time"] = row.get("event_time")
    return draft(fields, messages, services.settings.max_record_chars, MADE_BY)
