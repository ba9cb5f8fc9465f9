"""Long replies of an assistant, to stand behind what a user says in the written sets.

They are those of the talks in `sets/chats*`, which are about other things.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

SETS = Path(__file__).parent / "sets"
SHORTEST = 1_000  # characters


def long_replies() -> Iterator[str]:
    """Replies of at least 1,000 characters, over and over."""
    files = sorted(SETS.glob("chats*/*.json"))
    talks = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    said = (
        message
        for talk in talks
        for session in talk["sessions"]
        for message in session["messages"]
    )
    texts = [one["content"] for one in said if one["role"] == "assistant"]
    return cycle([text for text in texts if len(text) >= SHORTEST])


def replied(
    messages: Iterable[dict[str, Any]], replies: Iterator[str] | None
) -> list[dict[str, Any]]:
    """The messages, each followed by a reply; without replies as they are."""
    found = []
    for message in messages:
        found.append(message)
        if replies is not None:
            reply = {"role": "assistant", "content": next(replies)}
            found.append({**message, **reply, "id": f"{message['id']}-reply"})
    return found
