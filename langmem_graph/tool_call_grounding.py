"""An agent's own tool calls, completed and checked against memory before they run."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from langchain_core.messages import ToolMessage
from langgraph.func import task
from langgraph.types import Command, interrupt

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.tool_schema import slot_name, slot_path, tool_spec
from langmem_graph.retrieval.formatting import NOTED, as_data, plain_id
from langmem_graph.runtime import emitter
from langmem_graph.schemas import GroundedCall
from langmem_graph.values.matching import supports

OnContradiction = Literal["flag", "interrupt"]
"""Tell the model after the call, or ask a human before it."""
Question = dict[str, Any] | None
"""The `arguments` and `contradictions` that a human is asked about."""
_log = logging.getLogger(__name__)


class GroundedTools:
    """The tools whose calls are completed and checked from memory.

    Args:
        tools: LangChain tools, pydantic models, OpenAI functions or JSON schemas.
        on_contradiction: what happens when an argument differs from what memory says.

    Raises:
        InvalidInputError: something is no tool, two have one name, or an unknown option.
    """

    def __init__(self, tools: Sequence[Any], on_contradiction: OnContradiction) -> None:
        if on_contradiction not in get_args(OnContradiction):
            raise InvalidInputError(
                f"on_contradiction must be one of {', '.join(get_args(OnContradiction))}, not "
                f"{on_contradiction!r}."
            )
        specs = [tool_spec(tool) for tool in tools]
        self._by_name = {spec.name: spec for spec in specs}
        self.asks = on_contradiction == "interrupt"
        if len(self._by_name) < len(specs):
            raise InvalidInputError("Two of ground_tools have the same name.")

    def schema_of(self, name: str) -> dict[str, Any] | None:
        """The tool as an OpenAI function; None for a tool that is not among them."""
        spec = self._by_name.get(name)
        if spec is None:
            return None
        about = {"name": spec.name, "description": spec.description}
        return {**about, "parameters": spec.schema}

    def checked(
        self, name: str, given: Mapping[str, Any], known: GroundedCall | None, request: str
    ) -> "Checked":
        """The completed call and what contradicts memory; unchanged where grounding failed."""
        if known is None:
            return Checked(dict(given), [])
        completed, added = _completed(given, known)
        against = _contradictions(given, known, request)
        event = {"event": "memory_tool_call", "tool": name, "added": added}
        emitter()({**event, "contradictions": [slot for slot, _ in against]})
        if not self.asks:
            for slot, _ in against:
                _log.info("a tool call differs from memory in %s", slot)
        return Checked(completed, [note for _, note in against])


@dataclass(frozen=True)
class Checked:
    """The arguments of a call after the check."""

    arguments: dict[str, Any]
    notes: list[str]
    """Contradictions with memory, one line each."""


def _completed(given: Mapping[str, Any], known: GroundedCall) -> tuple[dict[str, Any], list[str]]:
    """The agent's arguments and, from memory, those it left out; defaults are left to the tool."""
    grounded = [
        slot_path(slot) for slot, where in known.grounding.items() if where.type != "default"
    ]
    return _merged(given, known.arguments, grounded)


def _merged(
    given: Mapping[str, Any], known: Mapping[str, Any], grounded: Sequence[tuple[str, ...]]
) -> tuple[dict[str, Any], list[str]]:
    """An object, completed at every level, and the names of the arguments that were added."""
    merged, added = dict(given), []
    for name, value in known.items():
        inside = [path[1:] for path in grounded if path[0] == name]
        own = merged.get(name)
        if inside and own is None:
            merged[name] = value
            added.append(slot_name([name]))
        elif isinstance(own, Mapping) and isinstance(value, Mapping):
            merged[name], parts = _merged(own, value, [path for path in inside if path])
            added += [f"{slot_name([name])}.{part}" for part in parts]
    return merged, added


def _contradictions(
    given: Mapping[str, Any], known: GroundedCall, request: str
) -> list[tuple[str, str]]:
    """Arguments that differ from memory, unless the request itself states them."""
    found = []
    for slot, where in known.grounding.items():
        value, meant = _at(given, slot), _at(known.arguments, slot)
        from_memory = where.type == "explicit" and bool(where.message_ids or where.record_ids)
        if value is None or not from_memory or _same(value, meant):
            continue
        if supports(request, value) or supports(where.text, value):  # also in another form
            continue
        source = ", ".join(map(plain_id, where.message_ids or where.record_ids))
        said = f"memory says {as_data(str(meant))} ({as_data(where.text)}, {source})"
        found.append((slot, f"{slot} was {as_data(str(value))}, but {said}"))
    return found


def _at(arguments: Mapping[str, Any], slot: str) -> Any:
    found: Any = arguments
    for name in slot_path(slot):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    return bool(one == other)


def agreed(name: str, question: Mapping[str, Any]) -> Checked | None:
    """Ask a human: True approves, a mapping replaces arguments, anything else stops the call."""
    answer = interrupt({"tool": name, **question})
    if isinstance(answer, Mapping):
        return Checked({**question["arguments"], **answer}, [])
    return Checked(question["arguments"], []) if answer is True else None


def to_ask(checked: Checked) -> dict[str, Any] | None:
    """The question for a human; None where nothing contradicts memory."""
    if not checked.notes:
        return None
    return {"arguments": checked.arguments, "contradictions": checked.notes}


def once(work: Callable[[], Question]) -> Question:
    """Compute the question for a human only once per tool call.

    A graph that is resumed after an interrupt runs the tool's node again, perhaps in another
    process. The model might then answer differently or not at all, and a call that a human has
    refused would run. So the question is saved with the node's other results. It is streamed with
    them and holds no more than the interrupt does.
    """

    def memory_grounding() -> Question:
        return work()

    return task(memory_grounding)().result()


async def aonce(work: Callable[[], Awaitable[Question]]) -> Question:
    """Async twin of `once`."""

    async def memory_grounding() -> Question:
        return await work()

    return await task(memory_grounding)()


def refused(name: str, call_id: str | None) -> ToolMessage:
    """The message to the model when a human has stopped the call."""
    text = "The user did not agree to this call, since it contradicts what they said before. Ask."
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")


def with_notes(answer: Any, notes: Sequence[str]) -> Any:
    """The tool's answer, followed by the contradictions with memory."""
    if not notes:
        return answer
    if isinstance(answer, Command) and isinstance(answer.update, Mapping):
        said = answer.update.get("messages")
        told = [with_notes(one, notes) for one in said] if isinstance(said, list) else said
        return replace(answer, update={**answer.update, "messages": told}) if told else answer
    if not isinstance(answer, ToolMessage):
        return answer
    note = NOTED + "\n".join(f"- {note}" for note in notes)
    content = answer.content
    noted = content + note if isinstance(content, str) else [*content, _text_block(note)]
    return answer.model_copy(update={"content": noted})


def _text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text.strip()}
