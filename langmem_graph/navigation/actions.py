"""The input and result of a rollout; parses a policy's actions, and calls the five
reading tools.

An action is a text (the answer), an assistant message in OpenAI's format, `{"answer":
…}`, `{"name": …, "arguments": …}` for one call, or `{"tool_calls": […]}` with either
kind of call. What cannot be parsed is reported, not raised.
"""

import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from langmem_graph.errors import InvalidInputError, StorageError, explain, for_log
from langmem_graph.filters import Where
from langmem_graph.memory import UserMemory
from langmem_graph.tool_answers import MAX_HITS, READING, Call, MemoryTool
from langmem_graph.topics import track_and_profile_files

Layer = Literal["messages", "records", "topics", "profile"]
"""The layers of memory, from exact to broad."""
Finish = Literal[
    "answered", "over_budget", "no_answer", "token_limit", "model_error", "unfinished"
]
"""`over_budget`: tools were called after the last turn. `no_answer`: the last text was
unusable. `token_limit`: the model was not called again. `model_error`: a call of the
model failed. `unfinished`: the rollout is running or was abandoned.
"""
Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class NavigationModel(BaseModel):
    """Base of the models of this package: frozen, without unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class QuestionItem(NavigationModel):
    """A question about one user, with its gold answers and evidence."""

    user_id: Text
    question: Text
    id: str = ""
    answers: list[str] = Field(default_factory=list)
    """Gold answers; each of them is correct."""
    evidence: list[str] = Field(default_factory=list)
    """Ids of the messages, and if known the records, that contain the answer."""
    needs_memory: bool = True
    """False where the question can be answered without this user's memory."""


class ToolUse(NavigationModel):
    """One call of a memory tool, and the ids that its result showed."""

    name: str
    arguments: dict[str, Any]
    turn: int
    layer: Layer | None = None
    """None where the call failed."""
    message_ids: list[str] = Field(default_factory=list)
    """Messages that were quoted, and messages named as a record's source."""
    record_ids: list[str] = Field(default_factory=list)
    error: str | None = None


class Navigation(NavigationModel):
    """The result of one rollout: the question, the tool calls and the answer."""

    user_id: str
    question: str
    answer: str = ""
    reason: str = ""
    well_formed: bool = False
    """The answer was the required JSON object."""
    finish: Finish = "unfinished"
    tool_calls: list[ToolUse] = Field(default_factory=list)
    turns: int = 0
    """The policy's messages that were not an answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    """False where the server counts no tokens and they were estimated."""
    milliseconds: float = 0.0
    problems: list[str] = Field(default_factory=list)
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The whole conversation in OpenAI's format."""

    @property
    def shown(self) -> frozenset[str]:
        """Ids of all messages and records that were shown."""
        calls = self.tool_calls
        return frozenset(
            shown for use in calls for shown in (*use.message_ids, *use.record_ids)
        )


def read_item(given: QuestionItem | Mapping[str, Any]) -> QuestionItem:
    """The item, or an `InvalidInputError` that names what is wrong with it."""
    try:
        return QuestionItem.model_validate(given)
    except ValidationError as error:
        raise InvalidInputError(f"Not a question item: {explain(error)}.") from error


_log = logging.getLogger(__name__)
_BY_NAME = {tool.name: tool for tool in READING}
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
        calls = [
            tool_call(call.id, name=call.name, arguments=call.text)
            for call in self.calls
        ]
        return message | ({"tool_calls": calls} if calls else {})


def read_action(action: object, turn: int) -> Action:
    """Parse an action; `turn` is used in the ids of calls that have none."""
    if isinstance(action, str):
        return _final_text(action)
    if not isinstance(action, Mapping):
        return Action(problem=f"An action cannot be {type(action).__name__}. {_FORMS}")
    calls = action.get("tool_calls")
    content = _text_of(action.get("content"))
    if "name" in action or "function" in action:
        calls = [action]
    if calls:
        if not isinstance(calls, list | tuple):
            return Action(content, problem=f"tool_calls is no list. {_FORMS}")
        return Action(content, _requested_calls(calls, turn))
    if isinstance(action.get("answer"), str):
        reason = action.get("reason") or ""
        answer = {
            "answer": action["answer"],
            "reason": reason if isinstance(reason, str) else None,
        }
        return _final_text(json.dumps(answer))
    return _final_text(content)


def _final_text(text: str) -> Action:
    text = _plain(text)[:LONGEST_TEXT]
    return (
        Action(text)
        if text.strip()
        else Action(problem=f"This turn is empty. {_FORMS}")
    )


def _requested_calls(calls: Sequence[object], turn: int) -> tuple[RequestedCall, ...]:
    requests: dict[str, RequestedCall] = {}
    for number, call in enumerate(calls[:MAX_CALLS], 1):
        request = _requested_call(call, f"call-{turn}-{number}", taken=requests.keys())
        requests[request.id] = request
    return tuple(requests.values())


def _requested_call(
    call: object, default_id: str, taken: Collection[str]
) -> RequestedCall:
    fields = call if isinstance(call, Mapping) else {}
    inner = fields.get("function")
    about = inner if isinstance(inner, Mapping) else fields
    call_id = _plain(fields["id"])[:100] if isinstance(fields.get("id"), str) else ""
    if not call_id.strip() or call_id in taken:
        call_id = default_id
    name = about.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return RequestedCall(call_id, "unknown", {}, "{}", "The call names no tool.")
    return RequestedCall(call_id, name, *read_arguments(about.get("arguments")))


def read_arguments(given: object) -> tuple[dict[str, Any], str, str | None]:
    """The arguments as JSON data and as text, and what is wrong with them."""
    text = "{}"
    try:
        written = _plain(given) if isinstance(given, str) else _to_json(given or {})
        if len(written) > LONGEST_ARGUMENTS:
            return (
                {},
                text,
                f"The arguments have more than {LONGEST_ARGUMENTS} characters.",
            )
        text = written
        arguments = json.loads(_to_json(json.loads(text or "{}")))
    except (TypeError, ValueError, RecursionError) as error:
        return {}, text, f"The arguments are not JSON: {str(error)[:200]}."
    if not isinstance(arguments, dict):
        return {}, text, "The arguments must be a JSON object."
    return arguments, text, None


def _to_json(given: object) -> str:
    return _plain(json.dumps(given, ensure_ascii=False, allow_nan=False))


def _text_of(content: object) -> str:
    """A message's content as text; from a list of blocks, the text blocks."""
    if isinstance(content, str):
        return _plain(content)[:LONGEST_TEXT]
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return _plain("".join(text for text in texts if isinstance(text, str)))[
        :LONGEST_TEXT
    ]


def _plain(text: str) -> str:
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

    Well formed is one JSON object, bare or in a code fence, with a text as `answer`
    and, where given, as `reason`; `<think>…</think>` before it is ignored. Of any other
    text the last such object is the answer, or else the whole text.
    """
    rest = _THOUGHTS.sub("", text).strip()
    fenced = _FENCE.match(rest)
    whole = _answer_object(fenced[1] if fenced else rest)
    if whole is not None:
        return whole
    for start in [match.start() for match in re.finditer("{", rest)][
        : -_MAX_OBJECTS - 1 : -1
    ]:
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
    answer = read["answer"]
    reason = read.get("reason", "")
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    plain = _plain(text.strip())
    if text is not answer or not isinstance(reason, str):
        return FinalAnswer(plain)
    return FinalAnswer(plain, _plain(reason.strip()), well_formed=bool(plain))


def navigation_tools() -> list[dict[str, Any]]:
    """The five tools as OpenAI functions, for `bind_tools`, chat templates and
    trainers.

    In the order of their names, as TRL shows them: a policy sees what it was trained
    with.
    """
    return [_as_function(tool) for tool in sorted(READING, key=lambda tool: tool.name)]


def use_tool(
    user: UserMemory, request: RequestedCall, turn: int, where: Where | None = None
) -> tuple[str, ToolUse]:
    """Call a tool for this user; returns the text for the model, and the use as it is
    recorded.

    With `where` the tool shows what passes this filter alone; no arguments widen it.

    Raises:
        StorageError: the memory is closed or cannot be opened. The model is told other
            errors.
    """
    text, result = _result_of(Call(user, where=where), request)
    return text, ToolUse(
        name=request.name, arguments=request.arguments, turn=turn, **result
    )


def _result_of(given: Call, request: RequestedCall) -> tuple[str, dict[str, Any]]:
    """The text of a tool call, and the fields of a `ToolUse` that it gives."""
    tool = _BY_NAME.get(request.name)
    if request.problem or tool is None:
        return _failed(request.problem or f"There is no tool {request.name!r}.")
    try:
        arguments = tool.arguments.model_validate(request.arguments).model_dump()
        text, data = tool.work(given, **arguments)
    except ValidationError as error:
        return _failed(f"The arguments do not fit: {explain(error)}.")
    except InvalidInputError as error:
        return _failed(str(error))
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001  # recorded, and told to the model
        _log.warning("the memory tool %s failed: %s", tool.name, for_log(error))
        return _failed(
            "Memory cannot be read right now. Answer without it, and say so."
        )
    return text, _shown(data)


def _failed(error: str) -> tuple[str, dict[str, Any]]:
    return f"{error} The tools are {', '.join(_BY_NAME)}.", {"error": error}


def _shown(data: dict[str, Any]) -> dict[str, Any]:
    """The layer of a result, and the ids of messages and records in it, each once."""
    if "text" in data:
        is_profile = data["name"] == track_and_profile_files.PROFILE
        cited = list(dict.fromkeys(_cited_records(data["text"])))
        return {"layer": "profile" if is_profile else "topics", "record_ids": cited}
    records = data.get("records", [])
    message_ids = [
        hit.get("message_id") or hit["id"] for hit in data.get("messages", [])
    ]
    message_ids += [
        source for record in records for source in record["message_ids"][:MAX_HITS]
    ]
    record_ids = [record["record_id"] for record in records]
    return {
        "layer": "records" if "records" in data else "messages",
        "message_ids": list(dict.fromkeys(message_ids)),
        "record_ids": list(dict.fromkeys(record_ids)),
    }


def _cited_records(text: str) -> Sequence[str]:
    """The records that a topic track cites; the index and the profile cite none."""
    try:
        file = track_and_profile_files.parse(text)
    except InvalidInputError:
        return ()
    return file.evidence if isinstance(file, track_and_profile_files.TopicFile) else ()


def _as_function(tool: MemoryTool) -> dict[str, Any]:
    """The tool exactly as transformers describes a function, so that prompts are the
    same.
    """
    fields = tool.arguments.model_json_schema()["properties"]
    kept = ("type", "items", "description")
    properties = {
        name: {k: about[k] for k in kept if k in about}
        for name, about in fields.items()
    }
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}
