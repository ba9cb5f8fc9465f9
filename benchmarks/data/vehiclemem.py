"""VehicleMemBench: what several people say in a car, and requests that depend on it.

`history/history_7.txt` has a line a message; `qa_data/qa_7.json` the requests, each
with the memory that it rests on and the calls that follow from it. The calls are run in
the benchmark's own simulator; here the messages are looked for.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_json
from benchmarks.data.items import Conversation, DataSet, Question, Session

_WANTED = (
    "VehicleMemBench's folders history and qa_data "
    "(benchmark/ of github.com/isyuhaochen/VehicleMemBench, Apache-2.0)"
)
_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d)\] ([^:]{1,60}): (.*)")
_MEMORY = re.compile(r"\[(\w+ \d+, \d{4})\] '?(?:At )?(\d+:\d\d [AP]M)")
_MINUTE = "%Y-%m-%d %H:%M"
_NOTES = (
    "Gold are the messages of the minute at which a gold memory took place.",
    "Requests hint at what somebody once preferred and seldom name it.",
)


def load_vehiclemem(data: Path) -> DataSet:
    """The histories of a folder that has `history` and `qa_data`."""
    files = find(data, "vehiclemem", "history/history_*.txt", _WANTED)
    files.sort(key=_number)
    conversations = in_layout(
        "VehicleMemBench", files, lambda: [_conversation(file) for file in files]
    )
    cuts = (5, 10, 20)
    return DataSet(
        *("vehiclemem", "VehicleMemBench", "message", cuts, "judged"),
        conversations,
        files,
        _NOTES,
    )


def _number(file: Path) -> int:
    return int(file.stem.rpartition("_")[2])


def _conversation(file: Path) -> Conversation:
    messages = list(_messages(file))
    by_minute: dict[str, list[str]] = {}
    for message in messages:
        by_minute.setdefault(message["at"], []).append(message["id"])
    asked = read_json(file.parent.parent / "qa_data" / f"qa_{_number(file)}.json")
    questions = [
        _question(row, f"q{number}", by_minute, messages[-1]["at"])
        for number, row in enumerate(asked["related_to_vehicle_preference"], 1)
    ]
    return Conversation(file.stem, list(_sessions(messages)), questions)


def _messages(file: Path) -> Iterator[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if said := _LINE.fullmatch(line.strip()):
            at = datetime.strptime(said[1], _MINUTE).replace(tzinfo=UTC)
            yield {
                "id": f"m{number}",
                "role": "user",
                "name": said[2],
                "content": said[3],
                "at": at.isoformat(),
            }


def _sessions(messages: list[dict[str, Any]]) -> Iterator[Session]:
    """A session a day."""
    for day, said in groupby(messages, key=lambda message: message["at"][:10]):
        yield Session(day, list(said))


def _question(
    row: dict[str, Any], name: str, by_minute: dict[str, list[str]], at: str
) -> Question:
    gold = [
        message
        for minute in _minutes(row["gold_memory"])
        for message in by_minute.get(minute, [])
    ]
    return Question(
        id=name,
        text=row["query"],
        gold=frozenset(gold),
        category=row["reasoning_type"],
        at=at,
        answer="\n".join(row["new_answer"]),
    )


def _minutes(memory: str) -> Iterator[str]:
    for line in memory.splitlines():
        if found := _MEMORY.match(line):
            told = datetime.strptime(f"{found[1]} {found[2]}", "%B %d, %Y %I:%M %p")
            yield told.replace(tzinfo=UTC).isoformat()
