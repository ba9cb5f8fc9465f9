"""BEAM: long talks between a user and an assistant, gold by message.

A folder a chat: `chats/100K/7/chat.json` holds batches of turns, each turn a list of
messages; `probing_questions/probing_questions.json` holds questions by ability.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_json
from benchmarks.data.items import Conversation, DataSet, Question, Session

_WANTED = (
    "BEAM's chats (folders such as chats/100K/1 of "
    "github.com/mohammadtavakoli78/BEAM, without a licence: measure, never ship)"
)
_QUESTIONS = Path("probing_questions") / "probing_questions.json"
_DAY = "%B-%d-%Y"
_PLACE_IN_PLAN = re.compile(r"\s*->->.*$", re.DOTALL)
"""What BEAM's generator left at the end of a user's message."""
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary")
_ABSTENTION = "abstention"
_NOTES = (
    "Gold are BEAM's own message ids. A reply that repeats a fact counts as a miss.",
    "Questions without gold (abstention) are left out of retrieval.",
)


def load_beam(data: Path) -> DataSet:
    """The chats of a folder, each in a folder with its number.

    Args:
        data: a folder such as `chats/100K`, or one that holds it as `beam`.
    """
    files = find(data, "beam", "*/chat.json", _WANTED)
    files.sort(key=lambda file: (len(file.parent.name), file.parent.name))
    conversations = in_layout("BEAM", files, lambda: [_conversation(f) for f in files])
    cuts = (5, 10, 20)
    return DataSet(
        "beam", "BEAM", "message", cuts, "judged", conversations, files, _NOTES
    )


def _conversation(file: Path) -> Conversation:
    sessions = list(_sessions(read_json(file)))
    known = {message["id"] for session in sessions for message in session.messages}
    at = sessions[-1].messages[-1]["at"]
    asked = read_json(file.parent / _QUESTIONS)
    questions = [
        _question(row, f"{ability}-{number}", ability, known, at)
        for ability, rows in asked.items()
        for number, row in enumerate(rows, 1)
    ]
    return Conversation(file.parent.name, sessions, questions)


def _sessions(batches: list[dict[str, Any]]) -> Iterator[Session]:
    """A session a batch; a message without a date has that of the one before."""
    at: str | None = None
    for batch in batches:
        messages = []
        for turn in batch["turns"]:
            for message in turn:
                at = _when(message.get("time_anchor")) or at
                text = _PLACE_IN_PLAN.sub("", message["content"])
                role, name = message["role"], str(message["id"])
                row = {"id": name, "role": role, "content": text, "at": at}
                messages.append(row)
        yield Session(f"batch-{batch['batch_number']}", messages)


def _when(day: str | None) -> str | None:
    if not day:
        return None
    return datetime.strptime(day, _DAY).replace(tzinfo=UTC).isoformat()


def _question(
    row: dict[str, Any], name: str, ability: str, known: set[str], at: str | None
) -> Question:
    answers = [str(row[key]) for key in _ANSWERS if key in row]
    rubric = "\n".join(f"- {line}" for line in row.get("rubric") or [])
    return Question(
        id=name,
        text=str(row["question"]),
        gold=frozenset(_ids(row.get("source_chat_ids"))) & known,
        category=ability,
        at=at,
        answer="\n".join([*answers[:1], rubric]).strip(),
        rule="abstain" if ability == _ABSTENTION else "answer",
    )


def _ids(cited: Any) -> Iterator[str]:
    """Message ids, which stand in lists and under names of any depth."""
    if isinstance(cited, dict):
        cited = list(cited.values())
    if isinstance(cited, list):
        for part in cited:
            yield from _ids(part)
    elif cited is not None:
        yield str(cited)
