"""An agent's own tool calls, completed and checked against memory before they run."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from langchain_core.messages import ToolMessage
from langgraph.types import interrupt

from langmem_graph.errors import InvalidInputError
from langmem_graph.grounding.matchers import supports
from langmem_graph.grounding.tool_spec import tool_spec
from langmem_graph.models import GroundedCall
from langmem_graph.recall.quotes import NOTED, as_data, plain_id
from langmem_graph.steps import emitter

OnContradiction = Literal["flag", "interrupt"]
"""Tell the model after the call, or ask a human before it."""
_log = logging.getLogger(__name__)


class GroundedTools:
    """The tools whose calls memory looks at.

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
        self._by_name = {spec.name: vars(spec) for spec in specs}
        self._asks = on_contradiction == "interrupt"
        if len(self._by_name) < len(specs):
            raise InvalidInputError("Two of ground_tools have the same name.")

    def schema_of(self, name: str) -> dict[str, Any] | None:
        """The tool as an OpenAI function; None for a tool that memory does not look at."""
        spec = self._by_name.get(name)
        if spec is None:
            return None
        about = {"name": spec["name"], "description": spec["description"]}
        return {**about, "parameters": spec["schema"]}

    def checked(
        self, name: str, given: Mapping[str, Any], known: GroundedCall, request: str
    ) -> tuple[dict[str, Any] | None, list[str]]:
        """The arguments to call with, and what contradicts memory.

        None where a human has refused the call.
        """
        completed, added = _completed(given, known)
        against = _contradictions(given, known, request)
        event = {"event": "memory_tool_call", "tool": name, "added": added}
        emitter()({**event, "contradictions": [slot for slot, _ in against]})
        notes = [note for _, note in against]
        if against and self._asks:
            return _agreed(name, completed, notes), []
        for note in notes:
            _log.info("a tool call differs from memory in %s", note.split(" ")[0])
        return completed, notes


def _completed(given: Mapping[str, Any], known: GroundedCall) -> tuple[dict[str, Any], list[str]]:
    """What the agent gave, and from memory what it left out; defaults are the tool's own."""
    own = {slot.split(".")[0] for slot, where in known.grounding.items() if where.type != "default"}
    added = [name for name in known.arguments if name in own and given.get(name) is None]
    return {**given, **{name: known.arguments[name] for name in added}}, added


def _contradictions(
    given: Mapping[str, Any], known: GroundedCall, request: str
) -> list[tuple[str, str]]:
    """Arguments for which memory says something else, unless the request itself says them."""
    found = []
    for slot, where in known.grounding.items():
        value, meant = _at(given, slot), _at(known.arguments, slot)
        from_memory = where.type == "explicit" and bool(where.message_ids or where.record_ids)
        if value is None or not from_memory or _same(value, meant) or supports(request, value):
            continue
        source = ", ".join(map(plain_id, where.message_ids or where.record_ids))
        said = f"memory says {as_data(str(meant))} ({as_data(where.text)}, {source})"
        found.append((slot, f"{slot} was {as_data(str(value))}, but {said}"))
    return found


def _at(arguments: Mapping[str, Any], slot: str) -> Any:
    found: Any = arguments
    for name in slot.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    return bool(one == other)


def _agreed(name: str, arguments: dict[str, Any], notes: list[str]) -> dict[str, Any] | None:
    """Ask a human: True goes on as it is, other arguments replace these, False stops the call."""
    answer = interrupt({"tool": name, "arguments": arguments, "contradictions": notes})
    if isinstance(answer, Mapping):
        return {**arguments, **answer}
    return arguments if answer is True else None


def refused(name: str, call_id: str | None) -> ToolMessage:
    """What the model is told when a human has stopped the call."""
    text = "The user did not agree to this call, since it contradicts what they said before. Ask."
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")


def with_notes(answer: Any, notes: Sequence[str]) -> Any:
    """The tool's answer with what contradicts memory below it, where it is a text."""
    if not notes or not isinstance(answer, ToolMessage) or not isinstance(answer.content, str):
        return answer
    told = "\n".join(f"- {note}" for note in notes)
    return answer.model_copy(update={"content": answer.content + NOTED + told})
