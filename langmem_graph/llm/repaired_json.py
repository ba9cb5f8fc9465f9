"""JSON with slips, as models write it: a trailing comma, single quotes, a raw line
break, a comment, an end that was cut off.

It is tried where a strict reading found nothing. Each part of what it gives is checked
against the schema like that of any other answer.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import json_repair

DEEPEST = 64
"""Brackets within each other; a text of more is a repetition loop and costs seconds."""
MOST_DELIMITERS = 2_000
"""Quotation marks and round brackets of a text, each kind counted by itself: a repair
takes quadratic time in them.
"""
_DELIMITERS = "\"'“”‘’`("
_STEP = {"{": 1, "[": 1, "}": -1, "]": -1}
_END_OF_THOUGHT = "</think>"


class Repaired(NamedTuple):
    """An object that was read in spite of its slips."""

    value: dict[str, Any]
    is_cut_off: bool
    """The text ended within the object; a part that was not finished is left out."""


def repaired_object(text: str) -> Repaired | None:
    """The last JSON object of a text in which no valid one stands; None without any."""
    text = text.rpartition(_END_OF_THOUGHT)[2]
    place = text.find("{")
    if place < 0 or _depth(text) > DEEPEST:
        return None
    if max(map(text.count, _DELIMITERS)) > MOST_DELIMITERS:
        return None
    try:
        value = json_repair.loads(text[place:], skip_json_loads=True)
    except Exception:  # noqa: BLE001  # it has assertions of its own that may fail
        return None
    objects = [part for part in _parts(value) if isinstance(part, dict) and part]
    if not objects:
        return None
    last = objects[-1]
    body = text[place:].rstrip("` \n")
    is_cut_off = _is_open(body)
    if is_cut_off and not body.endswith(("}", "]")):
        last = _without_last_part(last)
    return Repaired(last, is_cut_off)


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _depth(text: str) -> int:
    return max(accumulate(_STEP.get(sign, 0) for sign in text), default=0)


def _is_open(text: str) -> bool:
    """Whether more brackets are opened than closed; those within texts count too."""
    return sum(_STEP.get(sign, 0) for sign in text) > 0


def _without_last_part(value: dict[str, Any]) -> dict[str, Any]:
    """Without the last item of the last list, or without the last value."""
    *before, name = value
    kept = {key: value[key] for key in before}
    last = value[name]
    if isinstance(last, list) and len(last) > 1:
        kept[name] = last[:-1]
    return kept
