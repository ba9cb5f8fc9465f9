"""Converts a trainer's completion into the form of a rollout: OpenAI messages, calls by turn."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langmem_graph.navigate._actions import LONGEST_TEXT
from langmem_graph.navigate._answer import FinalAnswer, read_answer
from langmem_graph.navigate._models import Finish, ToolUse

Message = dict[str, Any]


def openai_messages(messages: Sequence[Message]) -> list[Message]:
    """The messages in OpenAI's format: calls get ids, which their answers refer to."""
    converted, turn, open_ids = [], 0, iter(())
    for message in messages:
        plain = {"role": message["role"], "content": message.get("content") or ""}
        if calls := message.get("tool_calls"):
            turn += 1
            plain["tool_calls"] = [_call(one, turn, place) for place, one in enumerate(calls, 1)]
            open_ids = iter([one["id"] for one in plain["tool_calls"]])
        if message["role"] == "tool":
            plain["tool_call_id"] = next(open_ids, f"call-{turn}-?")
        converted.append(plain)
    return converted


def calls_by_turn(completion: Sequence[Message], recorded: Sequence[ToolUse]) -> list[ToolUse]:
    """The answered calls, each with its turn.

    The trainer itself answers a call whose arguments fit no tool: the environment has not recorded
    such a call, but it counts.
    """
    waiting, found = list(recorded), []
    for turn, name, arguments in _answered_calls(completion):
        if waiting and (waiting[0].name, waiting[0].arguments) == (name, arguments):
            found.append(waiting.pop(0).model_copy(update={"turn": turn}))
            continue
        plain = arguments if isinstance(arguments, dict) else {}
        error = "The trainer could not make this call."
        found.append(ToolUse(name=name, arguments=plain, turn=turn, error=error))
    return found + waiting


def finish_of(completion: Sequence[Message]) -> tuple[Finish, FinalAnswer]:
    """How the rollout ended; last calls without an answer exceeded the tool budget."""
    last = completion[-1] if completion else {}
    if last.get("role") != "assistant" or last.get("tool_calls"):
        return "over_budget", FinalAnswer("")
    text = str(last.get("content") or "")[:LONGEST_TEXT]
    return ("answered", read_answer(text)) if text.strip() else ("no_answer", FinalAnswer(""))


def _answered_calls(completion: Sequence[Message]) -> Iterator[tuple[int, str, Any]]:
    """Turn, name and arguments of every call that was answered."""
    asking = [place for place, one in enumerate(completion) if one.get("tool_calls")]
    for turn, place in enumerate(asking, 1):
        if place + 1 == len(completion):
            return
        for call in completion[place]["tool_calls"]:
            function = call.get("function") or {}
            yield turn, str(function.get("name") or "unknown"), function.get("arguments")


def _call(call: Message, turn: int, place: int) -> Message:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    about = {"name": str(function.get("name") or "unknown"), "arguments": text}
    return {"id": f"call-{turn}-{place}", "type": "function", "function": about}
