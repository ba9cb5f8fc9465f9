"""A trainer's completion as any other walk: in OpenAI's format, calls in their turns."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langmem_graph.navigate._actions import LONGEST_TEXT
from langmem_graph.navigate._answer import FinalAnswer, read_answer
from langmem_graph.navigate._models import Finish, ToolUse

Message = dict[str, Any]


def as_openai(messages: Sequence[Message]) -> list[Message]:
    """Calls get ids and arguments as text; the answers behind them name these ids."""
    told, turn, open_ids = [], 0, iter(())
    for message in messages:
        plain = {"role": message["role"], "content": message.get("content") or ""}
        if calls := message.get("tool_calls"):
            turn += 1
            plain["tool_calls"] = [_call(one, turn, place) for place, one in enumerate(calls, 1)]
            open_ids = iter([one["id"] for one in plain["tool_calls"]])
        if message["role"] == "tool":
            plain["tool_call_id"] = next(open_ids, f"call-{turn}-?")
        told.append(plain)
    return told


def in_turns(completion: Sequence[Message], noted: Sequence[ToolUse]) -> list[ToolUse]:
    """The calls that were answered, each in its turn.

    A call with arguments that no tool takes is answered by the trainer itself: memory has not
    noted it, but it was a call.
    """
    waiting, found = list(noted), []
    for turn, name, arguments in _answered(completion):
        if waiting and (waiting[0].name, waiting[0].arguments) == (name, arguments):
            found.append(waiting.pop(0).model_copy(update={"turn": turn}))
            continue
        plain = arguments if isinstance(arguments, dict) else {}
        error = "The trainer could not make this call."
        found.append(ToolUse(name=name, arguments=plain, turn=turn, error=error))
    return found + waiting


def ending(completion: Sequence[Message]) -> tuple[Finish, FinalAnswer]:
    """How the last message ends a rollout: one that calls tools was not allowed another turn."""
    last = completion[-1] if completion else {}
    if last.get("role") != "assistant" or last.get("tool_calls"):
        return "over_budget", FinalAnswer("")
    text = str(last.get("content") or "")[:LONGEST_TEXT]
    return ("answered", read_answer(text)) if text.strip() else ("no_answer", FinalAnswer(""))


def _answered(completion: Sequence[Message]) -> Iterator[tuple[int, str, Any]]:
    """Turn, name and arguments of every call that has an answer behind it."""
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
