"""evolve: what the model wants changed is done where code finds it safe (rule 3).

An older record is only superseded by one of the same subject and attribute (`gate`); a record is
only skipped when an older one is nearly the same; a merged sentence may hold nothing that its
halves do not. Everything else is stored beside what is there.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langmem_graph.models import Record
from langmem_graph.store import record_lookups
from langmem_graph.store.room import Room
from langmem_graph.write.gate import judge
from langmem_graph.write.state import WriteState, WriteTools
from langmem_graph.write.values import find_values

WORDS_KEPT = 0.8
"""Share of a merged sentence's longer words that must come from its halves."""


async def evolve(tools: WriteTools, state: WriteState) -> WriteState:
    """Turn decisions into what will be done, each with its reason."""
    rows, decisions = state.get("candidates", []), state.get("decisions", [])
    wanted = {n for one in decisions for n in one["targets"]}
    older = await tools.services.in_room(state["user_id"], lambda room: _records(room, wanted))
    floor = tools.services.settings.same_floor
    settled = [_settled(row, one, older, floor) for row, one in zip(rows, decisions, strict=True)]
    return {"decisions": settled}


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
    """Skipping needs an older record that is nearly the same and holds the same values."""
    values = {value.raw for value in find_values(row["text"])}
    for n in targets:
        said = {value.raw for value in find_values(older[n].text)}
        if decision["likeness"].get(str(n), 0.0) >= floor and values <= said:
            return {"action": "known", "targets": [n], "reason": "an older record says it"}
    return {"action": "store", "targets": [], "reason": "no older record says all of it"}


def _merge(
    row: dict[str, Any], decision: dict[str, Any], older: dict[int, Record], targets: list[int]
) -> dict[str, Any]:
    halves = [row["text"], *(older[n].text for n in targets)]
    same = {_plain(older[n].subject) for n in targets} == {_plain(row.get("subject"))}
    if same and decision.get("text") and _adds_nothing(decision["text"], halves):
        row["text"] = " ".join(decision["text"].split())
        return {"action": "merge", "targets": targets, "reason": "joined with what adds to it"}
    return {"action": "store", "targets": [], "reason": "the joined sentence was not usable"}


def _plain(name: str | None) -> str:
    return " ".join((name or "").casefold().split())


def _adds_nothing(text: str, halves: Iterable[str]) -> bool:
    both = "\n".join(halves)
    words = [word for word in text.casefold().split() if len(word) > 3]
    kept = sum(word.strip(".,;:") in both.casefold() for word in words)
    values = all(value.raw in both for value in find_values(text))
    return values and kept >= WORDS_KEPT * len(words)


def _update(row: dict[str, Any], older: dict[int, Record], targets: list[int]) -> dict[str, Any]:
    new = _as_record(row)
    supersedes, refines, reasons = [], [], []
    for n in targets:
        verdict = judge(older[n], new, row["said"], user_names=("user",))
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
