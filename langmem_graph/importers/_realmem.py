"""RealMem: one person's sessions with an assistant, over several projects."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from langmem_graph.importers._types import Conversation


def is_realmem(data: Any) -> bool:
    """True for one person's RealMem file."""
    sessions = data.get("dialogues") if isinstance(data, dict) else None
    return isinstance(sessions, list) and bool(sessions) and "dialogue_turns" in sessions[0]


def read_realmem(data: dict[str, Any]) -> Iterator[Conversation]:
    """Sessions in the file's order; message ids are `SESSION:NUMBER`, the first being 1."""
    for session in data["dialogues"]:
        uuid, at = session["session_uuid"], _when(session["current_time"])
        turns = enumerate(session["dialogue_turns"], 1)
        yield Conversation(uuid, [_message(turn, f"{uuid}:{n}", at) for n, turn in turns])


def _when(text: str) -> str:
    """`2025-12-24 (Wednesday)` or with a time of day; the weekday in brackets is dropped."""
    return (
        datetime.fromisoformat(text.split("(", maxsplit=1)[0].strip())
        .replace(tzinfo=UTC)
        .isoformat()
    )


def _message(turn: dict[str, Any], message_id: str, at: str) -> dict[str, Any]:
    role = "assistant" if turn["speaker"] == "Assistant" else "user"
    return {"id": message_id, "role": role, "content": turn["content"], "at": at}
