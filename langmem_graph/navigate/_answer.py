"""Parses the final answer: the required JSON object, or the best reading of another text."""

import json
import re
from dataclasses import dataclass
from typing import Any

_THOUGHTS = re.compile(r"\A.*</think>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_MAX_OBJECTS = 50


@dataclass(frozen=True)
class FinalAnswer:
    """The final answer of a rollout."""

    answer: str
    reason: str = ""
    well_formed: bool = False


def read_answer(text: str) -> FinalAnswer:
    """The answer of a final text.

    Well formed is one JSON object, bare or in a code fence, with a text as `answer` and, where
    given, as `reason`; thoughts before it (`<think>…</think>`) do not count. Of any other text the
    last such object is taken, or else the whole text.
    """
    rest = _THOUGHTS.sub("", text).strip()
    fenced = _FENCE.match(rest)
    whole = _answer_object(fenced[1] if fenced else rest)
    if whole is not None:
        return whole
    for start in [match.start() for match in re.finditer("{", rest)][: -_MAX_OBJECTS - 1 : -1]:
        inside = _answer_object(rest[start:], to_the_end=False)
        if inside is not None:
            return FinalAnswer(inside.answer, inside.reason)
    return FinalAnswer(rest)


def _answer_object(text: str, *, to_the_end: bool = True) -> FinalAnswer | None:
    try:
        read, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if to_the_end and text[end:].strip():
        return None
    return _answer_from(read)


def _answer_from(read: Any) -> FinalAnswer | None:
    if not isinstance(read, dict) or "answer" not in read:
        return None
    answer, reason = read["answer"], read.get("reason", "")
    if isinstance(answer, str) and isinstance(reason, str):
        return FinalAnswer(_storable(answer), _storable(reason), well_formed=bool(answer.strip()))
    plain = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return FinalAnswer(_storable(plain))


def _storable(text: str) -> str:
    return text.strip().encode("utf-8", "replace").decode("utf-8")
