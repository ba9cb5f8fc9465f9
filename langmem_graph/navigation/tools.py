"""The five reading tools: calls them for one user and records the ids that each result shows."""

import logging
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from langmem_graph.errors import InvalidInputError, StorageError, explain, for_log
from langmem_graph.memory import UserMemory
from langmem_graph.navigation.actions import RequestedCall
from langmem_graph.navigation.schemas import Layer, ToolUse
from langmem_graph.tools.tool_answers import MAX_HITS, Call
from langmem_graph.tools.tool_definitions import READING, MemoryTool
from langmem_graph.topics import files

_log = logging.getLogger(__name__)
_BY_NAME = {tool.name: tool for tool in READING}
_LAYERS: dict[str, Layer] = {
    "search_records": "records",
    "get_records": "records",
    "search_conversation": "messages",
    "get_conversation": "messages",
}


@dataclass(frozen=True)
class ToolResult:
    """The result of one tool call."""

    text: str
    layer: Layer | None = None
    message_ids: tuple[str, ...] = ()
    record_ids: tuple[str, ...] = ()
    error: str | None = None


def navigation_tools() -> list[dict[str, Any]]:
    """The five tools as OpenAI functions, for `bind_tools`, chat templates and trainers.

    In the order of their names, as TRL shows them: a policy sees what it was trained with.
    """
    return [_as_function(tool) for tool in sorted(READING, key=lambda tool: tool.name)]


def use_tool(user: UserMemory, request: RequestedCall, turn: int) -> tuple[str, ToolUse]:
    """Call a tool for this user; returns the text for the model, and the record of the call.

    Raises:
        StorageError: the memory is closed or cannot be opened. The model is told other errors.
    """
    shown = _result_of(user, request)
    use = ToolUse(
        name=request.name,
        arguments=request.arguments,
        turn=turn,
        layer=shown.layer,
        message_ids=list(dict.fromkeys(shown.message_ids)),
        record_ids=list(dict.fromkeys(shown.record_ids)),
        error=shown.error,
    )
    return shown.text, use


def _result_of(user: UserMemory, request: RequestedCall) -> ToolResult:
    tool = _BY_NAME.get(request.name)
    if request.problem or tool is None:
        return _failed(request.problem or f"There is no tool {request.name!r}.")
    try:
        arguments = tool.arguments.model_validate(request.arguments).model_dump()
        text, data = tool.work(Call(user, user.settings, frozenset()), **arguments)
    except ValidationError as error:
        return _failed(f"The arguments do not fit: {explain(error)}.")
    except InvalidInputError as error:
        return _failed(str(error))
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001  # noted in the navigation, as the model is told
        _log.warning("the memory tool %s failed: %s", tool.name, for_log(error))
        return _failed("Memory cannot be read right now. Answer without it, and say so.")
    return ToolResult(text, _layer(tool.name, data), *_ids(tool.name, data))


def _failed(why: str) -> ToolResult:
    return ToolResult(f"{why} The tools are {', '.join(_BY_NAME)}.", error=why)


def _layer(name: str, data: dict[str, Any]) -> Layer:
    if name in _LAYERS:
        return _LAYERS[name]
    return "profile" if data["name"] == files.PROFILE else "topics"


def _ids(name: str, data: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids of the messages and of the records in a result."""
    if name == "read_file":
        return (), _cited_records(data["text"])
    records = data.get("records", [])
    sources = [one for record in records for one in record["message_ids"][:MAX_HITS]]
    quoted = [said.get("message_id") or said["id"] for said in data.get("messages", [])]
    return (*quoted, *sources), tuple(record["record_id"] for record in records)


def _cited_records(text: str) -> tuple[str, ...]:
    """The records that a topic track cites; the index and the profile cite none."""
    try:
        file = files.parse(text)
    except InvalidInputError:
        return ()
    return tuple(file.evidence) if isinstance(file, files.TopicFile) else ()


def _as_function(tool: MemoryTool) -> dict[str, Any]:
    """The tool exactly as transformers describes a function, so that prompts are the same."""
    fields = tool.arguments.model_json_schema()["properties"]
    kept = ("type", "items", "description")
    properties = {
        name: {key: about[key] for key in kept if key in about} for name, about in fields.items()
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}
