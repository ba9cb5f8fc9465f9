"""Calls the five reading tools for one user and records the ids that each result shows."""

import logging
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from langmem_graph.errors import InvalidInputError, StorageError, explain, for_log
from langmem_graph.memory import UserMemory
from langmem_graph.navigation.navigation_items import Layer, ToolUse
from langmem_graph.navigation.parse_actions import RequestedCall
from langmem_graph.tools.tool_answers import MAX_HITS
from langmem_graph.tools.tool_definitions import READING, MemoryTool
from langmem_graph.tools.tool_turn_budget import Call
from langmem_graph.topics import track_and_profile_files

_log = logging.getLogger(__name__)
_BY_NAME = {tool.name: tool for tool in READING}
_LAYERS: dict[str, Layer] = {
    "search_records": "records",
    "get_records": "records",
    "search_conversation": "messages",
    "get_conversation": "messages",
}


def navigation_tools() -> list[dict[str, Any]]:
    """The five tools as OpenAI functions, for `bind_tools`, chat templates and trainers.

    In the order of their names, as TRL shows them: a policy sees what it was trained with.
    """
    return [_as_function(tool) for tool in sorted(READING, key=lambda tool: tool.name)]


def use_tool(user: UserMemory, request: RequestedCall, turn: int) -> tuple[str, ToolUse]:
    """Call a tool for this user; returns the text for the model, and the use as it is recorded.

    Raises:
        StorageError: the memory is closed or cannot be opened. The model is told other errors.
    """
    text, result = _result_of(user, request)
    return text, ToolUse(name=request.name, arguments=request.arguments, turn=turn, **result)


def _result_of(user: UserMemory, request: RequestedCall) -> tuple[str, dict[str, Any]]:
    """The text of a tool call, and the fields of a `ToolUse` that it gives."""
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
    except Exception as error:  # noqa: BLE001  # recorded, and told to the model
        _log.warning("the memory tool %s failed: %s", tool.name, for_log(error))
        return _failed("Memory cannot be read right now. Answer without it, and say so.")
    layer = _LAYERS.get(tool.name) or (
        "profile" if data["name"] == track_and_profile_files.PROFILE else "topics"
    )
    return text, {"layer": layer, **_ids(tool.name, data)}


def _failed(error: str) -> tuple[str, dict[str, Any]]:
    return f"{error} The tools are {', '.join(_BY_NAME)}.", {"error": error}


def _ids(name: str, data: dict[str, Any]) -> dict[str, list[str]]:
    """Ids of the messages and of the records in a result, each once."""
    if name == "read_file":
        return {"record_ids": list(dict.fromkeys(_cited_records(data["text"])))}
    records = data.get("records", [])
    message_ids = [hit.get("message_id") or hit["id"] for hit in data.get("messages", [])]
    message_ids += [source for record in records for source in record["message_ids"][:MAX_HITS]]
    record_ids = [record["record_id"] for record in records]
    shown = {"message_ids": message_ids, "record_ids": record_ids}
    return {name: list(dict.fromkeys(ids)) for name, ids in shown.items()}


def _cited_records(text: str) -> Sequence[str]:
    """The records that a topic track cites; the index and the profile cite none."""
    try:
        file = track_and_profile_files.parse(text)
    except InvalidInputError:
        return ()
    return file.evidence if isinstance(file, track_and_profile_files.TopicFile) else ()


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
