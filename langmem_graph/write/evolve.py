"""evolve: what the model wants changed is done where code finds it safe (rule 3).

An older record is only superseded by one of the same subject and attribute (`gate`); a record is
only skipped when an older one is nearly the same; a merged sentence may hold nothing that its
halves do not. Everything else is stored beside what is there.
"""

import re
from datetime import datetime
from itertools import pairwise
from typing import Any

from langmem_graph.models import Record
from langmem_graph.schedule.stored import time_key
from langmem_graph.store import record_lookups
from langmem_graph.store.room import Room
from langmem_graph.write.attributes import same_attribute, same_subject
from langmem_graph.write.gate import judge
from langmem_graph.write.ordering import merge_chains
from langmem_graph.write.state import ExtractionDependencies, WriteState
from langmem_graph.write.values import find_values

FILLERS = frozenset("a an and also as at by for in is it of on or that the to was who with".split())
"""Words that joining two sentences may add or drop; no negation is among them."""
NEGATIONS = frozenset("no not never none nothing longer anymore stopped quit without n t".split())


async def evolve(deps: ExtractionDependencies, state: WriteState) -> WriteState:
    """Turn decisions into what will be done, each with its reason."""
    rows, decisions = state.get("candidates", []), state.get("decisions", [])
    wanted = {n for one in decisions for n in one["targets"]}
    older = await deps.services.in_room(state["user_id"], lambda room: _records(room, wanted))
    floor = deps.services.settings.same_floor
    settled = [_settled(row, one, older, floor) for row, one in zip(rows, decisions, strict=True)]
    _order(rows, settled, older)
    return {"decisions": settled}


def _order(
    rows: list[dict[str, Any]], settled: list[dict[str, Any]], older: dict[int, Record]
) -> None:
    """Several of a batch that supersede one record form a chain in time: the last is true now."""
    for n in {n for one in settled if one["action"] == "update" for n in one["targets"]}:
        places = [
            p for p, one in enumerate(settled) if one["action"] == "update" and n in one["targets"]
        ]
        times = {f"{place:03}": datetime.fromisoformat(rows[place]["said_at"]) for place in places}
        chains = [["old", name] for name in times]
        order = merge_chains(chains, times | {"old": older[n].valid_from}).order[1:]
        for earlier, later in pairwise(map(int, order)):
            verdict = judge(
                _as_record(rows[earlier]),
                _as_record(rows[later]),
                rows[later]["said"],
                user_names=("user",),
            )
            if verdict.outcome == "overwrite":
                settled[later].setdefault("replaces", []).append(earlier)


def _records(room: Room, wanted: set[int]) -> dict[int, Record]:
    with room.database.reading() as connection:
        return record_lookups.records_by_number(connection, wanted)


def _settled(
    row: dict[str, Any], decision: dict[str, Any], older: dict[int, Record], floor: float
) -> dict[str, Any]:
    action = decision["action"]
    targets = [n for n in decision["targets"] if n in older and older[n].status == "active"]
    row["attribute"] = decision.get("attribute") or row.get("attribute") or ""
    if action == "known" or not targets:
        return {"action": action if targets else "store", "targets": targets, "reason": None}
    if action == "skip":
        return _skip(row, decision, older, targets, floor)
    if action == "merge":
        return _merge(row, decision, older, targets)
    return _update(row, older, targets)


def _skip(
    row: dict[str, Any],
    decision: dict[str, Any],
    older: dict[int, Record],
    targets: list[int],
    floor: float,
) -> dict[str, Any]:
    """Skipping needs an older record that is nearly the same: its values, and its time if any."""
    values = {value.raw for value in find_values(row["text"])}
    denied = _telling(row["text"]) & NEGATIONS
    when = time_key(row.get("facet"), row.get("event_time"))
    for n in targets:
        if when and when != time_key(older[n].facet, older[n].event_time):
            continue  # another appointment of that name
        said = {value.raw for value in find_values(older[n].text)}
        if denied != _telling(older[n].text) & NEGATIONS:
            continue
        if decision["likeness"].get(str(n), 0.0) >= floor and values <= said:
            return {"action": "known", "targets": [n], "reason": "an older record says it"}
    return {"action": "store", "targets": [], "reason": "no older record says all of it"}


def _merge(
    row: dict[str, Any], decision: dict[str, Any], older: dict[int, Record], targets: list[int]
) -> dict[str, Any]:
    """Joining needs one subject and attribute, and a sentence of both halves and no more."""
    halves = [row["text"], *(older[n].text for n in targets)]
    fits = all(_is_half(row, older[n]) for n in targets)
    if fits and decision.get("text") and _holds_all(decision["text"], halves):
        row["text"] = " ".join(decision["text"].split())
        return {"action": "merge", "targets": targets, "reason": "joined with what adds to it"}
    return {"action": "store", "targets": [], "reason": "the joined sentence was not usable"}


def _is_half(row: dict[str, Any], old: Record) -> bool:
    new = _as_record(row)
    return (
        same_subject(old.subject, new.subject, ("user",))
        and same_attribute(old.attribute, new.attribute)
        and old.kind == new.kind
        and old.confirmation == new.confirmation
        and new.valid_from >= old.valid_from
    )


def _holds_all(text: str, halves: list[str]) -> bool:
    """Every telling word of the halves, each value, and nothing that is in neither."""
    merged, parts = _telling(text), [_telling(half) for half in halves]
    values = {value.raw for half in halves for value in find_values(half)}
    return set().union(*parts) == merged and all(raw in text for raw in values)


def _telling(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold())) - FILLERS


def _update(row: dict[str, Any], older: dict[int, Record], targets: list[int]) -> dict[str, Any]:
    new = _as_record(row)
    supersedes, refines, reasons = [], [], []
    for n in targets:
        verdict = judge(older[n], new, row["said"], user_names=("user", *row["speakers"]))
        reasons.append(verdict.reason)
        if verdict.outcome == "overwrite":
            supersedes.append(n)
        elif verdict.outcome == "refine":
            refines.append(n)
    return {
        "action": "update" if supersedes else "store",
        "targets": supersedes,
        "refines": refines,
        "reason": " ".join(dict.fromkeys(reasons)),
    }


def _as_record(row: dict[str, Any]) -> Record:
    """What the gate reads of a candidate."""
    said_at = datetime.fromisoformat(row["said_at"])
    same = ("text", "kind", "facet", "confirmation", "entities")
    return Record(
        record_id="new",
        subject=row.get("subject") or None,
        attribute=row.get("attribute") or None,
        message_ids=row["source_ids"],
        said_at=said_at,
        valid_from=said_at,
        created_at=said_at,
        updated_at=said_at,
        **{name: row[name] for name in same},
    )
