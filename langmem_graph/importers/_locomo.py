"""LoCoMo: two people's sessions, `session_N` lists with a `session_N_date_time` each."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from langmem_graph.importers._types import Conversation

_SESSION = re.compile(r"session_(\d+)")
_TIME = "%I:%M %p on %d %B, %Y"


def is_locomo(data: Any) -> bool:
    """True for a LoCoMo sample or a list of them."""
    first = data[0] if isinstance(data, list) and data else data
    return isinstance(first, dict) and "session_1" in first.get("conversation", ())


def read_locomo(data: Any) -> Iterator[Conversation]:
    """Sessions in order; ids are `SAMPLE/DIALOGUE_ID`, so that several samples can share a user."""
    for number, sample in enumerate(data if isinstance(data, list) else [data], 1):
        yield from read_sample(sample, prefix=f"{sample.get('sample_id', number)}/")


def read_sample(sample: dict[str, Any], *, prefix: str = "") -> Iterator[Conversation]:
    """The sessions of one sample, each message at its session's date."""
    talk = sample["conversation"]
    numbers = sorted(int(found[1]) for key in talk if (found := _SESSION.fullmatch(key)))
    for number in numbers:
        at = _when(talk.get(f"session_{number}_date_time"))
        messages = [_message(turn, at, prefix) for turn in talk[f"session_{number}"]]
        yield Conversation(f"{prefix}session_{number}", messages)


def _when(text: str | None) -> str | None:
    return datetime.strptime(text.strip(), _TIME).replace(tzinfo=UTC).isoformat() if text else None


def _message(turn: dict[str, Any], at: str | None, prefix: str) -> dict[str, Any]:
    caption = turn.get("blip_caption")
    return {
        "id": f"{prefix}{turn['dia_id']}",
        "role": "user",
        "name": turn["speaker"],
        "content": turn["text"] + (f" [shares {caption}]" if caption else ""),
        "at": at,
    }
