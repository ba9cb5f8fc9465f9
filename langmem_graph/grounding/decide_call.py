"""The step `decide`: assemble the call, the missing arguments and the warnings (Mem2ActBench 3.3).

A required value that memory does not support is missing, never invented; an optional one is left
out. An inferred value that does not certainly follow is flagged by default: dropping such values
loses more correct arguments than wrong ones (Mem2ActBench 3.5).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from langmem_graph.grounding.evidence_sources import Evidence, Source, current_sources
from langmem_graph.grounding.state import FilledSlot, GroundingDependencies, GroundingState, Policy
from langmem_graph.grounding.tool_schema import Slot, object_in, slot_name, slots_of
from langmem_graph.grounding.type_conversion import errors, problem, problem_with
from langmem_graph.runtime import Event, StepRun
from langmem_graph.schemas import GroundedCall, Grounding, MissingSlot


async def decide(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Assemble the call."""
    evidence, tool = state["evidence"], state["tool"]
    filled = await _without_forgotten(deps, run, state["filled"], evidence)
    assembly = _Assembly(state["policy"], state["warnings"])
    for slot in slots_of(state["tool"]):
        assembly.take(slot, filled.get(slot.name) or FilledSlot(slot.name, "missing"), evidence)
    assembly.remove_unusable(tool.schema)
    assembly.report_errors(tool.schema)
    usage = state["usage"]
    call = GroundedCall(
        name=tool.name,
        arguments=assembly.arguments,
        grounding=assembly.grounding,
        missing=assembly.missing,
        warnings=[*assembly.warnings, *usage.problems],
        llm_calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )
    missing = [slot.name for slot in call.missing]
    event: Event = {"event": "memory_grounded", "filled": list(call.grounding), "tool": call.name}
    run.emit({**event, "missing": missing})
    return {"call": call}


async def _without_forgotten(
    deps: GroundingDependencies, run: StepRun, filled: Sequence[FilledSlot], evidence: Evidence
) -> dict[str, FilledSlot]:
    """The filled slots by name; one whose source was forgotten or changed since is missing."""
    cited = evidence.named(alias for slot in filled for alias in slot.sources)
    stored = await current_sources(deps.services, run, cited)
    kept = {}
    for slot in filled:
        gone = any(_is_gone(slot, stored[source.alias]) for source in evidence.named(slot.sources))
        reason = "was forgotten or changed meanwhile"
        kept[slot.slot] = replace(slot, how="missing", reason=reason, text="") if gone else slot
    return kept


def _is_gone(filled: FilledSlot, source: Source | None) -> bool:
    if source is None or filled.value is None:
        return source is None
    values = filled.value if isinstance(filled.value, list) else [filled.value]
    return any(map(source.has_superseded, (filled.text, *map(str, values))))


class _Assembly:
    """Collects the arguments of the call, their grounding, the missing slots and the warnings."""

    def __init__(self, policy: Policy, warnings: Sequence[str]) -> None:
        self._policy = policy
        self.arguments: dict[str, Any] = {}
        self.grounding: dict[str, Grounding] = {}
        self.missing: list[MissingSlot] = []
        self.warnings = list(warnings)

    def take(self, slot: Slot, filled: FilledSlot, evidence: Evidence) -> None:
        """Add one slot: its value, its default, or its absence."""
        doubtful = filled.how == "inferred" and not filled.follows
        if doubtful and self._policy != "flag":
            reason = f"does not surely follow: {filled.value!r}"
            self._take_default(slot, replace(filled, reason=reason), evidence)
        elif filled.how in ("explicit", "inferred"):
            if doubtful:
                self.warnings.append(f"{slot.name}: {filled.value!r} does not surely follow")
            self._put(slot, filled, evidence)
        else:
            self._take_default(slot, filled, evidence)

    def _take_default(self, slot: Slot, filled: FilledSlot, evidence: Evidence) -> None:
        """Add the default of a slot without a usable value, or report the slot as missing."""
        wrong = _bad_default(slot)
        if slot.has_default and filled.how != "conflict" and not wrong:
            if filled.reason:
                self.warnings.append(f"{slot.name} has its default: {filled.reason}")
            default = FilledSlot(slot.name, "default", slot.schema["default"])
            self._put(slot, default, evidence)
        else:
            self._miss(slot, replace(filled, reason=filled.reason or wrong), evidence)

    def _put(self, slot: Slot, filled: FilledSlot, evidence: Evidence) -> None:
        _set(self.arguments, slot.path, filled.value)
        sources = evidence.named(filled.sources)
        self.grounding[slot.name] = Grounding(
            type=filled.how,
            record_ids=[record_id for source in sources for record_id in source.record_ids],
            message_ids=[message_id for source in sources for message_id in source.message_ids],
            text=filled.text,
        )

    def _miss(self, slot: Slot, filled: FilledSlot, evidence: Evidence) -> None:
        conflict = filled.how == "conflict"
        ask = filled.how == "inferred" and self._policy == "ask"
        values = [source.texts[0] for source in evidence.named(filled.sources)] if conflict else []
        reason = "sources disagree" if conflict else filled.reason or "memory does not say"
        if slot.required or conflict or ask:
            self.missing.append(MissingSlot(name=slot.name, reason=reason, values=values))
        elif filled.reason:
            self.warnings.append(f"{slot.name} is left out: {filled.reason}")

    def remove_unusable(self, schema: Mapping[str, Any]) -> None:
        """Remove optional objects that lack a required part or hold nothing but defaults."""
        self._remove_from(schema, (), self.arguments)

    def report_errors(self, schema: Mapping[str, Any]) -> None:
        """Report every remaining schema error as a missing argument or a warning."""
        for error in errors(self.arguments, schema):
            lacking = [path for path in _lacking(error) if not self._is_named(path)]
            reason = str(error.message)[:200]
            self.missing += [MissingSlot(name=slot_name(p), reason=reason) for p in lacking if p]
            if () in lacking:
                self.warnings.append(f"the arguments do not fit together: {reason}")

    def _is_named(self, path: tuple[str, ...]) -> bool:
        return bool(path) and any(_is_within(slot.name, path) for slot in self.missing)

    def _remove_from(
        self, schema: Mapping[str, Any], path: tuple[str, ...], given: dict[str, Any]
    ) -> None:
        """Remove the unusable parts of one object, the innermost first."""
        needed = schema.get("required") or ()
        for name, part in schema["properties"].items():
            inside, inner = object_in(part), (*path, name)
            if name not in given:
                continue
            if inside and isinstance(given[name], dict):
                self._remove_from(inside, inner, given[name])
                if name not in needed and not self._has_grounded(inner):
                    self._drop(inner, given)
                    continue
            error = None if name in needed else problem(given[name], part)
            if error:
                self._drop(inner, given)
                self.warnings.append(f"{slot_name(inner)} is left out: {error}")

    def _has_grounded(self, path: tuple[str, ...]) -> bool:
        return any(
            _is_within(slot, path) and grounding.type != "default"
            for slot, grounding in self.grounding.items()
        )

    def _drop(self, path: tuple[str, ...], given: dict[str, Any]) -> None:
        del given[path[-1]]
        self.grounding = {k: g for k, g in self.grounding.items() if not _is_within(k, path)}
        self.missing = [slot for slot in self.missing if not _is_within(slot.name, path)]


def _bad_default(slot: Slot) -> str:
    """Why the slot's default does not fit its own schema; empty when it fits."""
    wrong = problem_with(slot.schema["default"], slot) if slot.has_default else None
    return f"its default does not fit: {wrong}" if wrong else ""


def _lacking(error: Any) -> list[tuple[str, ...]]:
    """The paths that a schema error is about: the absent arguments, or the one at fault."""
    names = list(takewhile(lambda part: isinstance(part, str), error.absolute_path))
    path = tuple(map(str, names))
    if error.validator == "required":
        return [(*path, name) for name in error.validator_value if name not in error.instance]
    if error.validator == "dependentRequired":
        needed = [names for name, names in error.validator_value.items() if name in error.instance]
        absent = (n for dependent in needed for n in dependent if n not in error.instance)
        return [(*path, name) for name in absent]
    inside = [lacking for part in error.context or () for lacking in _lacking(part)]
    return list(dict.fromkeys(inside)) or [path]


def _is_within(slot: str, path: tuple[str, ...]) -> bool:
    return slot == slot_name(path) or slot.startswith(slot_name(path) + ".")


def _set(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        arguments = arguments.setdefault(name, {})
    arguments[path[-1]] = value
