"""Converts between LangChain's messages and the messages of a rollout."""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)


def as_action(message: AIMessage) -> dict[str, Any]:
    """A model's message as an action; calls whose arguments could not be parsed are kept."""
    parsed = [
        {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")}
        for call in message.tool_calls
    ]
    broken = [
        {"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args") or "?"}
        for call in message.invalid_tool_calls
    ]
    return {"content": str(message.text), "tool_calls": [*parsed, *broken]}


def as_history(message: AIMessage, recorded: dict[str, Any]) -> AIMessage:
    """What the model is shown of its own message.

    As it came, with all a provider put into it, where its calls are as they should be. Otherwise
    rebuilt: providers refuse empty messages and calls with no id, no answer or broken arguments.
    """
    calls = recorded.get("tool_calls", [])
    came = [(call["id"], call["name"]) for call in message.tool_calls]
    read = [(call["id"], call["function"]["name"]) for call in calls]
    if came == read and not message.invalid_tool_calls and (calls or recorded["content"].strip()):
        return message
    return AIMessage(recorded["content"] or "(empty)", tool_calls=[_call(call) for call in calls])


def as_messages(messages: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """A rollout's own messages as LangChain's: instructions, questions and tool results."""
    return [_message(message) for message in messages]


def _message(message: dict[str, Any]) -> BaseMessage:
    if message["role"] == "tool":
        return ToolMessage(message["content"], tool_call_id=message["tool_call_id"])
    kind = SystemMessage if message["role"] == "system" else HumanMessage
    return kind(message["content"])


def _call(recorded: dict[str, Any]) -> ToolCall:
    function = recorded["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        arguments = {}
    plain = arguments if isinstance(arguments, dict) else {}
    return ToolCall(name=function["name"], args=plain, id=recorded["id"])
