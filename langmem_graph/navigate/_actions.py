"""What a policy does in one turn, read from any form; what cannot be read is said, never raised.

Forms: a text (the answer), an assistant message in OpenAI's format, `{"answer": …}`,
`{"name": …, "arguments": …}` for one call, or `{"tool_calls": […]}` with either kind of call.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_CALLS = 5
"""Calls of one turn; further ones are left out."""
LONGEST_TEXT = 60_000
LONGEST_ARGUMENTS = 10_000
_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
_FORMS = (
    "Answer with a text, or call tools: an assistant message with tool_calls, or "
    '{"name": TOOL, "arguments": {…}}.'
)


@dataclass(frozen=True)
class Request:
    """One call that was asked for."""

    id: str
    name: str
    arguments: dict[str, Any]
    text: str
    """The arguments as they were written."""
    problem: str | None = None


@dataclass(frozen=True)
class Action:
    """One turn: calls, or a text, or something that is neither."""

    text: str = ""
    calls: tuple[Request, ...] = ()
    problem: str | None = None

    def as_message(self) -> dict[str, Any]:
        """The assistant's message in OpenAI's format."""
        said: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            said["tool_calls"] = [_as_call(call) for call in self.calls]
        return said


def read_action(action: object, turn: int) -> Action:
    """The action in one form; `turn` makes up ids for calls that have none."""
    if isinstance(action, str):
        return _said(action)
    if not isinstance(action, Mapping):
        return Action(problem=f"An action cannot be {type(action).__name__}. {_FORMS}")
    calls = action.get("tool_calls")
    if "name" in action or "function" in action:
        calls = [action]
    if calls:
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            return Action(_text(action.get("content")), problem=f"tool_calls is no list. {_FORMS}")
        return Action(_text(action.get("content")), _read_calls(calls, turn))
    if isinstance(action.get("answer"), str):
        return _said(_dumped({name: action.get(name) or "" for name in ("answer", "reason")})[0])
    return _said(_text(action.get("content")))


def _said(text: str) -> Action:
    text = _clean(text)[:LONGEST_TEXT]
    return Action(text) if text.strip() else Action(problem=f"This turn is empty. {_FORMS}")


def _read_calls(calls: Sequence[object], turn: int) -> tuple[Request, ...]:
    found: dict[str, Request] = {}
    for number, call in enumerate(calls[:MAX_CALLS], 1):
        request = _read_call(call, f"call-{turn}-{number}", taken=found.keys())
        found[request.id] = request
    return tuple(found.values())


def _read_call(call: object, own_id: str, taken: Any) -> Request:
    fields = call if isinstance(call, Mapping) else {}
    inner = fields.get("function")
    about = inner if isinstance(inner, Mapping) else fields
    given_id = _clean(fields["id"])[:100] if isinstance(fields.get("id"), str) else ""
    call_id = given_id if given_id.strip() and given_id not in taken else own_id
    name = about.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return Request(call_id, "unknown", {}, "{}", "The call names no tool.")
    arguments, text, problem = _read_arguments(about.get("arguments"))
    return Request(call_id, name, arguments, text, problem)


def _read_arguments(given: object) -> tuple[dict[str, Any], str, str | None]:
    """The arguments as JSON-shaped data and as text, and what is wrong with them."""
    text, problem = (_clean(given), None) if isinstance(given, str) else _dumped(given or {})
    if problem or len(text) > LONGEST_ARGUMENTS:
        return {}, "{}", problem or f"The arguments have more than {LONGEST_ARGUMENTS} characters."
    try:
        read = json.loads(text or "{}")
        plain = json.loads(_dumped(read)[0])  # without lone surrogates, NaN becomes a problem
    except (ValueError, RecursionError) as error:
        return {}, text, f"The arguments are not JSON: {str(error)[:200]}."
    if not isinstance(plain, dict):
        return {}, text, "The arguments must be a JSON object."
    return plain, text, None


def _dumped(given: object) -> tuple[str, str | None]:
    try:
        return _clean(json.dumps(given, ensure_ascii=False, allow_nan=False)), None
    except (TypeError, ValueError, RecursionError) as error:
        return "", f"The arguments are not JSON: {str(error)[:200]}."


def _text(content: object) -> str:
    """A content as text; of a list of blocks, the texts."""
    if isinstance(content, str):
        return _clean(content)[:LONGEST_TEXT]
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return _clean("".join(text for text in texts if isinstance(text, str)))[:LONGEST_TEXT]


def _clean(text: str) -> str:
    """Without lone surrogates, which no file and no database takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _as_call(call: Request) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.text}
    return {"id": call.id, "type": "function", "function": function}
