"""Completes an agent's tool calls from memory and checks them against it, before they
run.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Literal, get_args

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.func import task
from langgraph.types import Command, interrupt

from langmem_graph.errors import InvalidInputError, for_log, quoted
from langmem_graph.grounding.tool_schema import slot_name, slot_path, value_at
from langmem_graph.grounding.value_kinds import is_refuted
from langmem_graph.llm.tool_specs import tool_spec
from langmem_graph.messages import HANDOFF
from langmem_graph.results import GroundedCall, Grounding
from langmem_graph.retrieval.quoted_context import NOTED, as_data, plain_id
from langmem_graph.runtime import at_once, emitter
from langmem_graph.server_urls import as_shown
from langmem_graph.values.matching import says

OnContradiction = Literal["flag", "interrupt"]
"""Whether the model is told after the call, or a human is asked before it."""
Arguments = Mapping[str, Any]
Question = dict[str, Any] | None
"""The `arguments`, `contradictions`, `offered` values and `sources` that a human is
shown, and the `user` whose memory they are of.
"""
MOST_PARTS = 40  # of an agent's list or object that are looked for in a text
_log = logging.getLogger(__name__)


class GroundedTools:
    """The tools whose calls are completed and checked; the options are the
    middleware's.
    """

    def __init__(
        self,
        tools: Sequence[Any],
        on_contradiction: OnContradiction,
        fail_closed: bool = False,
    ) -> None:
        if on_contradiction not in get_args(OnContradiction):
            raise InvalidInputError(
                "on_contradiction must be one of "
                f"{', '.join(get_args(OnContradiction))}, not "
                f"{quoted(on_contradiction)}."
            )
        if not isinstance(tools, Iterable) or isinstance(tools, str | Mapping):
            raise InvalidInputError(
                f"ground_tools must be a list of tools, not {quoted(tools)}."
            )
        specs = [tool_spec(tool) for tool in tools]
        self._by_name = {spec.name: spec for spec in specs}
        self._fail_closed = fail_closed
        self.asks = on_contradiction == "interrupt"
        if len(self._by_name) < len(specs):
            raise InvalidInputError("Two of ground_tools have the same name.")

    def __len__(self) -> int:
        return len(self._by_name)

    def schema_of(self, name: str) -> dict[str, Any] | None:
        """The tool as an OpenAI function; None for a tool that is not among them."""
        spec = self._by_name.get(name)
        if spec is None:
            return None
        return {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.schema,
        }

    def checked(
        self, name: str, arguments: Arguments, grounded: GroundedCall | None, query: str
    ) -> "Checked":
        """The completed call and its contradictions with memory; unchanged if grounding
        or the check failed.
        """
        unchanged = Checked(dict(arguments), [])
        if grounded is None:
            return unchanged
        try:
            return self._compared(name, arguments, grounded, query)
        except Exception as error:  # such as for lists nested hundreds of times
            if self._fail_closed:
                raise
            text, _ = as_shown(error)
            failed = {"event": "memory_tool_call", "status": "failed", "error": text}
            emitter()({**failed, "tool": name})
            _log.warning("a tool call is sent unchecked: %s", for_log(error))
            return unchanged

    def _compared(
        self, name: str, arguments: Arguments, grounded: GroundedCall, query: str
    ) -> "Checked":
        sources = grounded.grounding.items()  # defaults are left to the tool
        paths = [
            slot_path(slot) for slot, source in sources if source.type != "default"
        ]
        missing = [slot_path(one.name) for one in grounded.missing]
        lacking = {path[:end] for path in missing for end in range(1, len(path) + 1)}
        whole = [
            path for path in paths if not _is_of_incomplete(path, lacking, arguments)
        ]
        completed, added = _merged(arguments, grounded.arguments, whole)
        notes = _contradictions(arguments, grounded, query)
        read = [slot for slot, source in sources if source.type == "read"]
        event = {"event": "memory_tool_call", "tool": name, "added": added}
        emitter()({**event, "read": read, "contradictions": list(notes)})
        if not self.asks:
            for slot in notes:
                _log.info("a tool call differs from memory in %s", slot)
        offered = {
            slot: f"{as_data(str(one.value))}, said by {one.origin} ({_cited(one)})"
            for slot, one in grounded.offered.items()
            if value_at(completed, slot_path(slot)) is None
        }
        shown = {slot: _cited(one) for slot, one in sources if one.type != "default"}
        return Checked(completed, list(notes.values()), offered, shown)


@dataclass(frozen=True)
class Checked:
    """The arguments of a call after the check."""

    arguments: dict[str, Any]
    notes: list[str]
    """Contradictions with memory, one line each."""
    offered: dict[str, str] = field(default_factory=dict)
    """Values that the user did not say, and who said them; they are not among the
    arguments.
    """
    sources: dict[str, str] = field(default_factory=dict)
    """The words from which each value of memory was taken, and their message."""


def _merged(
    arguments: Arguments, grounded: Arguments, paths: Sequence[tuple[str, ...]]
) -> tuple[dict[str, Any], list[str]]:
    """The agent's arguments, completed at every level, and the names of those that were
    added.
    """
    merged = dict(arguments)
    added = []
    for name, value in grounded.items():
        below = [path[1:] for path in paths if path[0] == name]
        present = merged.get(name)
        if below and present is None:
            merged[name] = value
            added.append(slot_name([name]))
        elif isinstance(present, Mapping) and isinstance(value, Mapping):
            merged[name], parts = _merged(
                present, value, [path for path in below if path]
            )
            added += [f"{slot_name([name])}.{part}" for part in parts]
    return merged, added


def _contradictions(
    arguments: Arguments, grounded: GroundedCall, query: str
) -> dict[str, str]:
    """A note for each slot that differs from what was copied from memory, or that the
    words behind a read value refute; not where the request itself has the value.
    """
    notes = {}
    for slot, sources in _by_slot(grounded).items():
        path = slot_path(slot)
        value = value_at(arguments, path)
        remembered = value_at(grounded.arguments, path)
        if value is None or _same(value, remembered) or _stands(value, query):
            continue
        words = [source.text for source in sources]
        is_copied = any(source.type == "copied" for source in sources)
        if _stands(value, " ".join(words)) or not (
            is_copied or is_refuted(value, words)
        ):
            continue
        cited = "; ".join(dict.fromkeys(map(_cited, sources)))
        said = f"memory says {as_data(str(remembered))} ({cited})"
        notes[slot] = f"{slot} was {as_data(str(value))}, but {said}"
    return notes


def _stands(value: Any, text: str) -> bool:
    """Whether a text has a value, or all single values of a list or an object."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        parts = value[:MOST_PARTS]
        return bool(parts) and all(_stands(part, text) for part in parts)
    return says(text, str(value))


def _by_slot(grounded: GroundedCall) -> dict[str, list[Grounding]]:
    """Where each value of memory comes from; the items of a list together."""
    found: dict[str, list[Grounding]] = {}
    for name, source in grounded.grounding.items():
        ids = source.message_ids or source.record_ids
        if ids and source.type in ("copied", "read"):
            names = takewhile(lambda part: not part.isdigit(), slot_path(name))
            found.setdefault(slot_name(list(names)), []).append(source)
    return found


def _cited(source: Grounding) -> str:
    ids = source.message_ids or source.record_ids
    return ", ".join(
        [as_data(source.text), *(map(plain_id, ids) if ids else ["the request"])]
    )


def _is_of_incomplete(
    path: tuple[str, ...], lacking: Set[tuple[str, ...]], arguments: Arguments
) -> bool:
    """True for a part of a list, or of an object that the agent left out, which lacks
    another part (`lacking`: paths that are absent, and those around them).

    It would be sent incomplete.
    """
    outer = [path[:place] for place in range(1, len(path))]
    return any(
        path[len(one)].isdigit() or value_at(arguments, one) is None
        for one in outer
        if one in lacking
    )


def _same(left: Any, right: Any) -> bool:
    """Whether two values are the same, or one name is a part of the other.

    A first name, or a name without a title, is no other person. A part of a number is
    another number.
    """
    if isinstance(left, str) and isinstance(right, str):
        texts = sorted((left.strip(), right.strip()), key=len)
        if not texts[0] or any(sign.isdigit() for sign in left + right):
            return texts[0].casefold() == texts[1].casefold()
        return says(texts[1], texts[0])
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(
            _same(left[name], right[name]) for name in left
        )
    return bool(left == right)


def ask_human(name: str, question: Mapping[str, Any]) -> Checked | None:
    """Interrupt: True approves, a mapping replaces arguments, anything else stops the
    call.
    """
    answer = interrupt({"tool": name, **question})
    if isinstance(answer, Mapping):
        return Checked({**question["arguments"], **answer}, [])
    return Checked(question["arguments"], []) if answer is True else None


async def once(
    check: Callable[[], Coroutine[Any, Any, Checked]], user: str, blocking: bool
) -> Question:
    """The question for a human about a user's call, computed only once.

    A resumed graph runs the tool's node again, perhaps in another process. The model
    might then answer differently or not at all, and a call that a human has refused
    would run. So the question is saved, and streamed, with the node's other results;
    the interrupt holds the same. Where another user resumes the run, the answer is
    about the call as it is for them: what is saved holds the first one's memory.
    """

    def question() -> Question:
        return _question_of(at_once(check()), user)

    async def aquestion() -> Question:
        return _question_of(await check(), user)

    saved: Any = task(name="memory_grounding")
    found: Question = (
        saved(question)().result() if blocking else await saved(aquestion)()
    )
    if found is None or found.get("user") == user:
        return found
    return _shown(await check(), user)


def _question_of(checked: Checked, user: str) -> Question:
    """The question; None where nothing contradicts memory and nothing is offered."""
    return _shown(checked, user) if checked.notes or checked.offered else None


def _shown(checked: Checked, user: str) -> dict[str, Any]:
    return {
        "user": user,
        "arguments": checked.arguments,
        "contradictions": checked.notes,
        "offered": checked.offered,
        "sources": checked.sources,
    }


def refused(name: str, call_id: str | None) -> ToolMessage:
    """The answer that the model gets when a human has stopped the call."""
    text = (
        "The user did not agree to this call, since it contradicts what they said "
        "before. Ask."
    )
    return ToolMessage(text, name=name, tool_call_id=call_id or "", status="error")


def with_notes(answer: Any, notes: Sequence[str]) -> Any:
    """The tool's answer, followed by the contradictions with memory."""
    if not notes:
        return answer
    if isinstance(answer, Command) and isinstance(answer.update, Mapping):
        messages = answer.update.get("messages")
        if isinstance(messages, list):
            messages = [with_notes(message, notes) for message in messages]
        update = {**answer.update, "messages": messages}
        return replace(answer, update=update) if messages else answer
    if not isinstance(answer, ToolMessage):
        return answer
    note = NOTED + "\n".join(f"- {note}" for note in notes)
    content = answer.content
    block = {"type": "text", "text": note.strip()}
    noted = content + note if isinstance(content, str) else [*content, block]
    return answer.model_copy(update={"content": noted})


def mark_handoffs(answers: Iterable[object], tools: Iterable[object]) -> None:
    """Mark an agent's calls without text, all of tools that carry a library's mark of a
    hand-off, as `plumbing`.
    """
    handoffs = {
        tool.name
        for tool in tools
        if isinstance(tool, BaseTool) and not HANDOFF.isdisjoint(tool.metadata or {})
    }
    for answer in answers:
        if not isinstance(answer, AIMessage) or answer.text.strip():
            continue
        called = {call["name"] for call in answer.tool_calls}
        if called and called <= handoffs:
            answer.additional_kwargs.setdefault("origin", "plumbing")
