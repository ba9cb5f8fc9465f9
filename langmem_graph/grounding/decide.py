"""decide: the call as it may be made, what is missing, and what to be careful about.

A required value that memory does not support is missing, never invented; an optional one is left
out. An inferred value that does not surely follow is flagged by default: dropping such values
costs more right answers than it saves (methods 3.5).
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from langmem_graph.grounding.slots import Slot, joined, object_in
from langmem_graph.grounding.sources import Evidence, Source, as_they_are
from langmem_graph.grounding.state import (
    Filled,
    GroundingDependencies,
    GroundingState,
    evidence_in,
    slots_in,
    spec_in,
)
from langmem_graph.grounding.values import errors, problem, problem_with
from langmem_graph.models import GroundedCall, Grounding, MissingSlot
from langmem_graph.steps import StepRun


async def decide(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Put the call together."""
    slots, evidence = slots_in(state), evidence_in(state)
    filled = {one.slot: one for one in map(Filled.model_validate, state["filled"])}
    await _leave_out_forgotten(deps, run, list(filled.values()), evidence)
    done = _Assembly(state.get("policy", "flag"), list(state.get("warnings") or []))
    for slot in slots:
        done.take(slot, filled.get(slot.name) or Filled(slot=slot.name, how="missing"), evidence)
    done.leave_out_unusable(spec_in(state).schema)
    done.name_what_is_wrong(spec_in(state).schema)
    usage = state.get("usage") or {}
    outcome = GroundedCall(
        name=spec_in(state).name,
        arguments=done.arguments,
        grounding=done.grounding,
        missing=done.missing,
        warnings=[*done.warnings, *usage.get("problems", [])],
        llm_calls=usage.get("calls", 0),
        input_tokens=usage.get("input_tokens", 0),
        output_tokens=usage.get("output_tokens", 0),
    )
    event = {"event": "memory_grounded", "filled": list(done.grounding), "tool": outcome.name}
    event["missing"] = [one.name for one in done.missing]
    run.emit(event)
    return {"call": outcome.model_dump(mode="json"), "trace": [event]}


async def _leave_out_forgotten(
    deps: GroundingDependencies, run: StepRun, filled: Sequence[Filled], evidence: Evidence
) -> None:
    """What the user has forgotten or changed while the model was asked fills nothing."""
    cited = evidence.named(alias for one in filled for alias in one.sources)
    now = await as_they_are(deps.services, run, cited)
    for one in filled:
        if any(_is_gone(one, now[source.alias]) for source in evidence.named(one.sources)):
            one.how, one.reason, one.text = "missing", "was forgotten or changed meanwhile", ""


def _is_gone(filled: Filled, source: Source | None) -> bool:
    if source is None or filled.value is None:
        return source is None
    values = filled.value if isinstance(filled.value, list) else [filled.value]
    return any(map(source.has_outlived, (filled.text, *map(str, values))))


class _Assembly:
    """The call while it is put together."""

    def __init__(self, policy: str, warnings: list[str]) -> None:
        self._policy = policy
        self.arguments: dict[str, Any] = {}
        self.grounding: dict[str, Grounding] = {}
        self.missing: list[MissingSlot] = []
        self.warnings = warnings

    def take(self, slot: Slot, filled: Filled, evidence: Evidence) -> None:
        """One slot: its value, its default, or what is missing."""
        doubtful = filled.how == "inferred" and not filled.follows
        if doubtful and self._policy != "flag":
            filled.reason = f"does not surely follow: {filled.value!r}"
        taken = filled.how in ("explicit", "inferred") and not (doubtful and self._policy != "flag")
        if taken:
            if doubtful:
                self.warnings.append(f"{slot.name}: {filled.value!r} does not surely follow")
            self._put(slot, filled.value, filled, evidence)
        elif slot.has_default and filled.how != "conflict" and not _bad_default(slot):
            if filled.reason:
                self.warnings.append(f"{slot.name} has its default: {filled.reason}")
            self._put(slot, slot.schema["default"], Filled(slot=slot.name, how="default"), evidence)
        else:
            filled.reason = filled.reason or _bad_default(slot)
            self._miss(slot, filled, evidence, ask=doubtful and self._policy == "ask")

    def _put(self, slot: Slot, value: Any, filled: Filled, evidence: Evidence) -> None:
        _set(self.arguments, slot.path, value)
        sources = evidence.named(filled.sources)
        self.grounding[slot.name] = Grounding(
            type=filled.how,
            record_ids=[one for source in sources for one in source.record_ids],
            message_ids=[one for source in sources for one in source.message_ids],
            text=filled.text,
        )

    def _miss(self, slot: Slot, filled: Filled, evidence: Evidence, *, ask: bool) -> None:
        conflict = filled.how == "conflict"
        values = [source.texts[0] for source in evidence.named(filled.sources)] if conflict else []
        reason = "sources disagree" if conflict else filled.reason or "memory does not say"
        if slot.required or conflict or ask:
            self.missing.append(MissingSlot(name=slot.name, reason=reason, values=values))
        elif filled.reason:
            self.warnings.append(f"{slot.name} is left out: {filled.reason}")

    def leave_out_unusable(self, schema: Mapping[str, Any]) -> None:
        """Optional objects that lack a part they need, or have nothing but defaults, go whole."""
        self._settle(schema, (), self.arguments)

    def name_what_is_wrong(self, schema: Mapping[str, Any]) -> None:
        """Whatever the schema still has against the call is missing, or a warning."""
        for error in errors(self.arguments, schema):
            lacking = [path for path in _lacking(error) if not self._is_named(path)]
            reason = str(error.message)[:200]
            self.missing += [MissingSlot(name=joined(one), reason=reason) for one in lacking if one]
            if () in lacking:
                self.warnings.append(f"the arguments do not fit together: {reason}")

    def _is_named(self, path: tuple[str, ...]) -> bool:
        return bool(path) and any(_is_within(one.name, path) for one in self.missing)

    def _settle(
        self, schema: Mapping[str, Any], path: tuple[str, ...], given: dict[str, Any]
    ) -> None:
        """One object's parts, the innermost first."""
        needed = schema.get("required") or ()
        for name, part in schema["properties"].items():
            inside, own = object_in(part), (*path, name)
            if name not in given:
                continue
            if inside and isinstance(given[name], dict):
                self._settle(inside, own, given[name])
                if name not in needed and not self._has_grounded(own):
                    self._drop(own, given)
                    continue
            error = None if name in needed else problem(given[name], part)
            if error:
                self._drop(own, given)
                self.warnings.append(f"{joined(own)} is left out: {error}")

    def _has_grounded(self, path: tuple[str, ...]) -> bool:
        return any(
            _is_within(slot, path) and grounding.type != "default"
            for slot, grounding in self.grounding.items()
        )

    def _drop(self, path: tuple[str, ...], given: dict[str, Any]) -> None:
        del given[path[-1]]
        self.grounding = {k: g for k, g in self.grounding.items() if not _is_within(k, path)}
        self.missing = [one for one in self.missing if not _is_within(one.name, path)]


def _bad_default(slot: Slot) -> str:
    """What the slot's schema has against its own default."""
    wrong = problem_with(slot.schema["default"], slot) if slot.has_default else None
    return f"its default does not fit: {wrong}" if wrong else ""


def _lacking(error: Any) -> list[tuple[str, ...]]:
    """What a schema's error is about: the arguments to be added, or the one it is found in."""
    names = list(takewhile(lambda part: isinstance(part, str), error.absolute_path))
    path = tuple(map(str, names))
    if error.validator == "required":
        return [(*path, name) for name in error.validator_value if name not in error.instance]
    if error.validator == "dependentRequired":
        given = [own for name, own in error.validator_value.items() if name in error.instance]
        return [(*path, one) for own in given for one in own if one not in error.instance]
    inside = [one for part in error.context or () for one in _lacking(part)]
    return list(dict.fromkeys(inside)) or [path]


def _is_within(slot: str, path: tuple[str, ...]) -> bool:
    return slot == joined(path) or slot.startswith(joined(path) + ".")


def _set(arguments: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        arguments = arguments.setdefault(name, {})
    arguments[path[-1]] = value
