"""Mem2ActBench: requests whose tool call must be filled from memory.

Two layouts: the paper's files (`qa_dataset.jsonl`, `toolmem_conversation.jsonl`), where
gold are the source conversations, and this project's own (`*memory*.jsonl` beside files
of requests), where gold are messages.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from benchmarks.data.files import find, in_layout, only, read_all
from benchmarks.data.items import (
    BenchDataError,
    Conversation,
    DataSet,
    Question,
    Session,
    ToolGoal,
)
from benchmarks.metrics.tool_calls import GoldSlot, SlotType, gold_slots
from langmem_graph.results import SearchBy

_WANTED = (
    "qa_dataset.jsonl and toolmem_conversation.jsonl of Mem2ActBench (arXiv "
    "2601.19935), or this "
    "project's benchmarks/sets/acting_*.jsonl"
)
_NOTES = (
    "Slots are scored as methods of the paper define them; value F1 is the figure "
    "comparable with "
    "its tables. All sessions are in memory, in order, and the requests come last.",
    "Tasks whose source conversations are not in the session file are kept and "
    "labelled `evidence "
    "absent` (the paper's release has such).",
)


def load_mem2actbench(data: Path) -> DataSet:
    """A folder with the files of either layout, or one of the files."""
    folder = data.parent if data.is_file() else data
    files = find(folder, "mem2actbench", "*.jsonl", _WANTED)
    own = [file for file in files if file.name.startswith("acting")]
    read = own or [
        _version(files, name, data) for name in ("qa_dataset", "toolmem_conversation")
    ]
    by, conversation = in_layout("Mem2ActBench", read, lambda: _load(own, read))
    title, cuts = "Mem2ActBench", (1, 5, 10, 20)
    return DataSet(
        "mem2actbench", title, by, cuts, "tool", [conversation], read, _NOTES
    )


def _version(files: list[Path], name: str, named: Path) -> Path:
    """The file that the user named, else the one of that very name, else the only one
    like it.
    """
    like = [file for file in files if file.name.startswith(name)]
    if not like:
        names = ", ".join(file.name for file in files)
        raise BenchDataError(f"{names}: not all there. Wanted: {_WANTED}.")
    meant = [file for file in like if file == named]
    same = [file for file in like if file.stem == name]
    (file,) = only(meant or same or like)
    return file


def _load(own: list[Path], read: list[Path]) -> tuple[SearchBy, Conversation]:
    if own:
        return "message", _own_layout(read_all(own))
    tasks, talks = read
    return "session", _papers_layout(read_all([tasks]), read_all([talks]))


# --- the paper's
# ---------------------------------------------------------------------------------


def _papers_layout(
    tasks: list[dict[str, Any]], talks: list[dict[str, Any]]
) -> Conversation:
    sessions = [session for talk in talks for session in _sessions(talk)]
    known = {session.session_id for session in sessions}
    return Conversation(
        "mem2actbench", sessions, [_paper_task(task, known) for task in tasks]
    )


def _sessions(talk: dict[str, Any]) -> Iterable[Session]:
    """One for each source conversation in a session, so that what is found has its
    source's id.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for number, turn in enumerate(talk["turns"], 1):
        source = str(turn.get("source_id") or talk["session_id"])
        role = "assistant" if turn.get("role") != "user" else "user"
        row = {"id": f"{talk['session_id']}:{number}", "role": role}
        parts.setdefault(source, []).append(
            row | {"content": str(turn.get("content") or "")}
        )
    return [Session(source, messages) for source, messages in parts.items()]


def _paper_task(task: dict[str, Any], known: set[str]) -> Question:
    sources = {str(fact["source_id"]) for fact in task.get("evolution_chain") or ()}
    sources |= {str(one) for one in task.get("source_conversation_ids") or ()}
    call, schema = task["tool_call"], task["target_tool_schema"]
    grounding = call.get("grounding_info") or {}
    slots = tuple(
        GoldSlot(name, value, _type(grounding.get(name) or {}), frozenset(sources))
        for name, value in call["arguments"].items()
    )
    goal = ToolGoal(
        schema["name"],
        str(schema.get("description", "")),
        _schema(schema["parameters"]),
        slots,
    )
    return Question(
        id=str(task["qa_id"]),
        text=task["query"],
        gold=frozenset(sources & known),
        category=str((task.get("complexity_metadata") or {}).get("level", "")),
        kind="evidence present" if sources <= known else "evidence absent",
        goal=goal,
    )


def _type(grounding: Mapping[str, Any]) -> SlotType:
    found = str(grounding.get("type", "explicit")).casefold()
    return (
        cast(SlotType, found)
        if found in ("explicit", "inferred", "default")
        else "explicit"
    )


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", **parameters}


# --- this project's
# ------------------------------------------------------------------------------


def _own_layout(rows: list[dict[str, Any]]) -> Conversation:
    said = sorted(
        (row for row in rows if "message" in row), key=lambda row: str(row["at"])
    )
    days: dict[str, list[dict[str, Any]]] = {}
    for row in said:
        days.setdefault(str(row["at"])[:10], []).append(row)
    sessions = [
        Session(day, [_message(one) for one in own], _records(own))
        for day, own in days.items()
    ]
    tasks = [row for row in rows if "request" in row]
    if not tasks or not said:
        raise KeyError("request or message")
    known = {str(row["id"]) for row in said}
    return Conversation("acting", sessions, [_own_task(task, known) for task in tasks])


def _message(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "role": "user", "content": row["message"], "at": row["at"]}


def _records(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = ("attribute", "subject", "kind")
    return [
        {"text": row["record"], "source_message_ids": [row["id"]]}
        | {name: row[name] for name in kept if row.get(name)}
        for row in rows
        if row.get("record")
    ]


def _own_task(task: dict[str, Any], known: set[str]) -> Question:
    slots = gold_slots(task["gold"])
    tool = task["tool"]
    goal = ToolGoal(
        tool["name"],
        str(tool.get("description", "")),
        _schema(tool["parameters"]),
        slots,
        tuple(task.get("absent") or ()),
    )
    return Question(
        id=str(task["id"]),
        text=task["request"],
        gold=frozenset().union(*(slot.sources for slot in slots)) & known,
        category=str(task.get("level", "")),
        kind=str(task.get("kind", "")),
        goal=goal,
    )
