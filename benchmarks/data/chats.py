"""Long talks between a user and an assistant, written for this project.

Each file of `benchmarks/sets/chats` is one talk with ten questions; each says whether
the user's words or the assistant's are asked for.
"""

from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_json
from benchmarks.data.items import Conversation, DataSet, Question, Session

_WANTED = "benchmarks/sets/chats of this repository"
_NOTES = (
    "A reply that only repeats the user's words is no gold of a question about them.",
)


def load_chats(data: Path) -> DataSet:
    """The talks of a folder."""
    files = find(data, "chats", "*.json", _WANTED)
    rows = [read_json(file) for file in files]
    talks = in_layout("Chats", files, lambda: [_conversation(row) for row in rows])
    cuts = (5, 10, 20)
    return DataSet("chats", "Chats", "message", cuts, "judged", talks, files, _NOTES)


def _conversation(row: dict[str, Any]) -> Conversation:
    sessions = [
        Session(f"s{place}", [m | {"at": session["at"]} for m in session["messages"]])
        for place, session in enumerate(row["sessions"])
    ]
    at = sessions[-1].messages[-1]["at"]
    questions = [
        Question(
            id=asked["id"],
            text=asked["question"],
            gold=frozenset(asked["evidence"]),
            category=asked["about"],
            kind=row["kind"],
            at=at,
            answer=asked["answer"],
        )
        for asked in row["questions"]
    ]
    return Conversation(row["id"], sessions, questions)
