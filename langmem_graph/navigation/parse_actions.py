"""Parses the actions of a policy; what cannot be parsed is reported, not raised.

An action is a text (the answer), an assistant message in OpenAI's format, `{"answer": …}`,
`{"name": …, "arguments": …}` for one call, or `{"tool_calls": […]}` with either kind of call.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_CALLS = 5
"""Most tool calls of one turn; further ones are ignored."""
LONGEST_TEXT = 60_000
LONGEST_ARGUMENTS = 10_000
_MAX_OBJECTS = 50
_NAME = re.compile(r"[\w-]{1,64}", re.ASCII)
_THOUGHTS = re.compile(r"\A.*</think>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:json)?\s*\n(.*?)\n?```\Z", re.DOTALL)
_FORMS = (
    "Answer with a text, or call tools: an assistant message with tool_calls, or "
    '{"name": TOOL, "arguments": {…}}.'
)


@dataclass(frozen=True)
class RequestedCall:
    """One tool call that the policy requested."""

    id: str
    name: str
    arguments: dict[str, Any]
    text: str
    """The arguments as the policy wrote them."""
    problem: str | None = None


@dataclass(frozen=True)
class Action:
    """One action: tool calls, a final text, or a problem where it is neither."""

    text: str = ""
    calls: tuple[RequestedCall, ...] = ()
    problem: str | None = None

    def as_message(self) -> dict[str, Any]:
        """The assistant's message in OpenAI's format."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                tool_call(call.id, name=call.name, arguments=call.text) for call in self.calls
            ]
        return message


def read_action(action: object, turn: int) -> Action:
    """Parse an action; `turn` is used in the ids of calls that have none."""
    if isinstance(action, str):
        return _final_text(action)
    if not isinstance(action, Mapping):
        return Action(problem=f"An action cannot be {type(action).__name__}. {_FORMS}")
    calls, content = action.get("tool_calls"), _text_of(action.get("content"))
    if "name" in action or "function" in action:
        calls = [action]
    if calls:
        if not isinstance(calls, Sequence) or isinstance(calls, str):
            return Action(content, problem=f"tool_calls is no list. {_FORMS}")
        return Action(content, _requested_calls(calls, turn))
    if isinstance(action.get("answer"), str):
        answer = {name: action.get(name) or "" for name in ("answer", "reason")}
        return _final_text(_to_json(answer)[0])
    return _final_text(content)


def _final_text(text: str) -> Action:
    text = _without_surrogates(text)[:LONGEST_TEXT]
    return Action(text) if text.strip() else Action(problem=f"This turn is empty. {_FORMS}")


def _requested_calls(calls: Sequence[object], turn: int) -> tuple[RequestedCall, ...]:
    requests: dict[str, RequestedCall] = {}
    for number, call in enumerate(calls[:MAX_CALLS], 1):
        request = _requested_call(call, f"call-{turn}-{number}", taken=requests.keys())
        requests[request.id] = request
    return tuple(requests.values())


def _requested_call(call: object, default_id: str, taken: Any) -> RequestedCall:
    fields = call if isinstance(call, Mapping) else {}
    inner = fields.get("function")
    about = inner if isinstance(inner, Mapping) else fields
    given_id = _without_surrogates(fields["id"])[:100] if isinstance(fields.get("id"), str) else ""
    call_id = given_id if given_id.strip() and given_id not in taken else default_id
    name = about.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return RequestedCall(call_id, "unknown", {}, "{}", "The call names no tool.")
    arguments, text, problem = _read_arguments(about.get("arguments"))
    return RequestedCall(call_id, name, arguments, text, problem)


def _read_arguments(given: object) -> tuple[dict[str, Any], str, str | None]:
    """The arguments as JSON data and as text, and what is wrong with them."""
    problem = None
    if isinstance(given, str):
        text = _without_surrogates(given)
    else:
        text, problem = _to_json(given or {})
    if problem or len(text) > LONGEST_ARGUMENTS:
        return {}, "{}", problem or f"The arguments have more than {LONGEST_ARGUMENTS} characters."
    try:
        read = json.loads(text or "{}")
        plain = json.loads(_to_json(read)[0])  # without lone surrogates, NaN becomes a problem
    except (ValueError, RecursionError) as error:
        return {}, text, f"The arguments are not JSON: {str(error)[:200]}."
    if not isinstance(plain, dict):
        return {}, text, "The arguments must be a JSON object."
    return plain, text, None


def _to_json(given: object) -> tuple[str, str | None]:
    try:
        return _without_surrogates(json.dumps(given, ensure_ascii=False, allow_nan=False)), None
    except (TypeError, ValueError, RecursionError) as error:
        return "", f"The arguments are not JSON: {str(error)[:200]}."


def _text_of(content: object) -> str:
    """A message's content as text; from a list of blocks, the text blocks."""
    if isinstance(content, str):
        return _without_surrogates(content)[:LONGEST_TEXT]
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    joined = "".join(text for text in texts if isinstance(text, str))
    return _without_surrogates(joined)[:LONGEST_TEXT]


def _without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced; files and databases refuse them."""
    return text.encode("utf-8", "replace").decode("utf-8")


def tool_call(call_id: str, **function: str) -> dict[str, Any]:
    """A tool call in OpenAI's format."""
    return {"id": call_id, "type": "function", "function": function}


@dataclass(frozen=True)
class FinalAnswer:
    """The final answer of a rollout."""

    answer: str
    reason: str = ""
    well_formed: bool = False


def read_answer(text: str) -> FinalAnswer:
    """The answer of a final text.

    Well formed is one JSON object, bare or in a code fence, with a text as `answer` and, where
    given, as `reason`; `<think>…</think>` before it is ignored. Of any other text the last such
    object is the answer, or else the whole text.
    """
    rest = _THOUGHTS.sub("", text).strip()
    fenced = _FENCE.match(rest)
    whole = _answer_object(fenced[1] if fenced else rest)
    if whole is not None:
        return whole
    for start in [match.start() for match in re.finditer("{", rest)][: -_MAX_OBJECTS - 1 : -1]:
        embedded = _answer_object(rest[start:], to_the_end=False)
        if embedded is not None:
            return FinalAnswer(embedded.answer, embedded.reason)
    return FinalAnswer(rest)


def _answer_object(text: str, *, to_the_end: bool = True) -> FinalAnswer | None:
    try:
        read, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if to_the_end and text[end:].strip():
        return None
    if not isinstance(read, dict) or "answer" not in read:
        return None
    answer, reason = read["answer"], read.get("reason", "")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    plain = _without_surrogates(text.strip())
    if text is not answer or not isinstance(reason, str):
        return FinalAnswer(plain)
    return FinalAnswer(plain, _without_surrogates(reason.strip()), well_formed=bool(plain))
