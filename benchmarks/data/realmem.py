"""RealMem: one person's projects with an assistant, gold by session.

The questions of a session are asked before it is added, so only earlier sessions can be
found.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.data.files import find, in_layout, read_json
from benchmarks.data.items import Conversation, DataSet, Question, Session

_WANTED = "RealMem's person files (github.com/AvatarMemory/RealMemBench, Apache-2.0)"
CATEGORIES = {
    "Dynamic Incremental": "Static Retrieval",
    "Implicit Preference": "Proactive Alignment",
    "Temporal-reasoning": "Temporal Reasoning",
}
"""The files' labels, where the paper has another name for them."""
_NOTES = (
    "Categories bear the paper's names; its Static Retrieval is `Dynamic Incremental` "
    "in the "
    "files, Proactive Alignment is `Implicit Preference`.",
    "The paper does not say whether its R@k is any or all; both are given, and the "
    "fraction. NDCG "
    "is given twice: usual, and as the paper's script has it, where ranks 1 and 2 "
    "weigh the same.",
    "The answer prompt holds memories, the session's date and the question, not the "
    "session's "
    "earlier turns.",
)


def load_realmem(data: Path) -> DataSet:
    """A person's file, or a folder of them."""
    files = find(data, "realmem", "*.json", _WANTED)
    conversations = in_layout(
        "RealMem", files, lambda: [_person(file) for file in files]
    )
    cuts = (5, 10, 20)
    return DataSet(
        "realmem", "RealMem", "session", cuts, "scale", conversations, files, _NOTES
    )


def _person(file: Path) -> Conversation:
    data = read_json(file)
    sessions = [_session(raw) for raw in data["dialogues"]]
    return Conversation(
        file.stem, sessions, list(_questions(data["dialogues"], sessions))
    )


def _session(raw: dict[str, Any]) -> Session:
    """Message ids are `SESSION:NUMBER`, the first being 1."""
    uuid, at = raw["session_uuid"], _when(raw["current_time"])
    turns = enumerate(raw["dialogue_turns"], 1)
    messages = [_message(turn, f"{uuid}:{number}", at) for number, turn in turns]
    return Session(uuid, messages, _memory_points(messages, raw))


def _when(text: str) -> str:
    """`2025-12-24 (Wednesday)` or with a time of day; the weekday in brackets is
    dropped.
    """
    plain = text.split("(", maxsplit=1)[0].strip()
    return datetime.fromisoformat(plain).replace(tzinfo=UTC).isoformat()


def _message(turn: dict[str, Any], message_id: str, at: str) -> dict[str, Any]:
    role = "assistant" if turn["speaker"] == "Assistant" else "user"
    return {"id": message_id, "role": role, "content": turn["content"], "at": at}


def _memory_points(
    messages: list[dict[str, Any]], raw: dict[str, Any]
) -> list[dict[str, Any]]:
    """RealMem's extracted memory; a point without a turn (0, -1) is of the whole
    session.
    """
    ids = [message["id"] for message in messages if message["content"].strip()]
    rows = []
    for point in raw.get("extracted_memory") or []:
        own = f"{raw['session_uuid']}:{point.get('source_turn')}"
        cited = [own] if own in ids else ids
        rows.append({"text": point["content"], "source_message_ids": cited})
    return rows


def _questions(
    dialogues: list[dict[str, Any]], sessions: list[Session]
) -> Iterator[Question]:
    earlier: set[str] = set()
    nothing: dict[str, Any] = {}
    for place, session in enumerate(dialogues):
        turns = session["dialogue_turns"]
        for number, turn in enumerate(turns, 1):
            if turn.get("is_query"):
                reply = next(
                    (one for one in turns[number:] if one["speaker"] == "Assistant"),
                    nothing,
                )
                asked = sessions[place].messages[number - 1]
                yield _question(turn, reply, asked, place, earlier)
        earlier.add(session["session_uuid"])


def _question(
    turn: dict[str, Any],
    reply: dict[str, Any],
    asked: dict[str, Any],
    place: int,
    earlier: set[str],
) -> Question:
    """The gold stands on the assistant's next turn; the time is that of the session."""
    label = str(turn.get("category_name"))
    return Question(
        id=asked["id"],
        text=turn["content"],
        gold=frozenset(set(reply.get("memory_session_uuids") or []) & earlier),
        category=CATEGORIES.get(label, label),
        kind=str(turn.get("session_type")),
        before=place,
        at=asked["at"],
        answer=str(reply.get("content", "")),
        rule="reply",
        memories=tuple(str(one["content"]) for one in reply.get("memory_used") or []),
    )
