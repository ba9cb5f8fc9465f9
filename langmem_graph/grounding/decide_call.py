"""The step `decide`: assemble the call, the missing arguments and the warnings
(Mem2ActBench 3.3).

A required value without support is missing, never invented; an optional one may have
its default.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langmem_graph.grounding.evidence_sources import Evidence, current_sources
from langmem_graph.grounding.schema_check import (
    bounded_checks,
    errors,
    patterns_not_run,
    problem,
)
from langmem_graph.grounding.state import (
    SENT,
    Dependencies,
    FilledValue,
    GroundingState,
)
from langmem_graph.grounding.tool_schema import (
    Slot,
    object_in,
    properties_in,
    read_arguments,
    required_in,
    slot_name,
    slots_of,
    value_at,
)
from langmem_graph.results import GroundedCall, Grounding, MissingSlot, Offered
from langmem_graph.runtime import Event, StepRun
from langmem_graph.threads import in_thread

Path = tuple[str, ...]

_UNUSABLE = "the model's answer could not be used"
_UNSAID = "memory does not say"
_OF_NAMES = ("required", "dependentRequired")
_OF_OTHERS = "the user did not say it"
_UNSETTLED = "it is not settled"
_TO_CONFIRM = "it is the model's reading of what was said"


async def decide(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Assemble the call."""
    tool = state["tool"]
    usage = state["usage"]
    filled = await _without_forgotten(deps, run, state["filled"], state["evidence"])
    warnings = list(dict.fromkeys([*state["warnings"], *run.warnings]))
    assembly = _Assembly({**state, "warnings": warnings}, filled)
    with bounded_checks():
        for slot in slots_of(tool):
            assembly.complete(slot)
        assembly.remove_unusable(tool.schema, (), assembly.arguments)
        assembly.report_errors(tool.schema)
    call = GroundedCall(
        name=tool.name,
        arguments=assembly.arguments,
        grounding=assembly.grounding,
        offered=assembly.offered,
        missing=assembly.missing,
        warnings=[*assembly.warnings, *usage.problems, *usage.dropped],
        llm_calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
    )
    missing = [slot.name for slot in call.missing]
    event: Event = {
        "event": "memory_grounded",
        "filled": list(call.grounding),
        "tool": call.name,
    }
    run.emit({**event, "missing": missing, "offered": list(call.offered)})
    await in_thread(deps.services.log_calls, run.user, usage.calls_made)
    return {"call": call}


async def _without_forgotten(
    deps: Dependencies, run: StepRun, filled: Sequence[FilledValue], evidence: Evidence
) -> list[FilledValue]:
    """The values; one whose source was forgotten or changed since is not sent."""
    cited = evidence.named(alias for one in filled for alias in one.sources)
    stored = await current_sources(deps.services, run, cited)
    kept = []
    for one in filled:
        texts = () if one.value is None else (one.text, str(one.value))
        now = [stored[source.alias] for source in evidence.named(one.sources)]
        gone = any(
            source is None or any(map(source.has_superseded, texts)) for source in now
        )
        reason = "was forgotten or changed meanwhile"
        kept.append(FilledValue(one.path, "refused", reason=reason) if gone else one)
    return kept


class _Assembly:
    """Collects the arguments of the call, their grounding, the missing slots and the
    warnings.
    """

    def __init__(self, state: GroundingState, filled: Sequence[FilledValue]) -> None:
        self._policy = state["policy"]
        self._evidence = state["evidence"]
        self._filled = {one.path: one for one in filled}
        self._unsaid = (
            _UNSAID if state["proposal"] or not slots_of(state["tool"]) else _UNUSABLE
        )
        self.grounding: dict[str, Grounding] = {}
        self.missing: list[MissingSlot] = []
        self.warnings = list(state["warnings"])
        self.offered = {
            one.name: Offered(**self._origin(one), value=one.value, origin=one.origin)
            for one in filled
            if one.how == "offered"
        }
        proposed = (
            read_arguments(state["proposal"].arguments) if state["proposal"] else {}
        )
        self._places = dict[Path, Path]()
        sent = {path for path, one in self._filled.items() if one.how in SENT}
        self._holding = {
            path[:length] for path in sent for length in range(len(path) + 1)
        }
        self.arguments: dict[str, Any] = self._sent_of(proposed, (), ()) or {}

    def _sent_of(self, proposed: Any, path: Path, place: Path) -> Any:
        """The part of the proposed arguments that is sent, at its place; None for
        nothing of it.
        """
        self._places[path] = place
        if path not in self._holding:
            return None
        if isinstance(proposed, dict):
            names = [name for name in proposed if (*path, name) in self._holding]
            return {
                n: self._sent_of(proposed[n], (*path, n), (*place, n)) for n in names
            }
        if isinstance(proposed, list):
            items = [(str(n), one) for n, one in enumerate(proposed)]
            kept = [(n, one) for n, one in items if (*path, n) in self._holding]
            gone = {
                (*path, n): place for n, _ in items if (*path, n) not in self._holding
            }
            self._places |= gone  # what such an item lacks, the list lacks
            return [
                self._sent_of(one, (*path, n), (*place, str(new)))
                for new, (n, one) in enumerate(kept)
            ]
        filled = self._filled[path]
        name = slot_name(place)
        self.grounding[name] = Grounding(**self._origin(filled))
        if filled.how == "chosen":
            self.warnings.append(f"{name}: {filled.value!r} is the model's choice")
        return filled.value

    def _name(self, path: Path) -> str:
        """The name of a proposed part among what is sent: items that are not sent have
        no place.
        """
        for length in range(len(path), 0, -1):
            if (place := self._places.get(path[:length])) is not None:
                gone = len(place) < length
                return slot_name(place if gone else (*place, *path[length:]))
        return slot_name(path)

    def _origin(self, filled: FilledValue) -> dict[str, Any]:
        sources = self._evidence.named(filled.sources)
        return {
            "type": filled.kind if filled.how == "offered" else filled.how,
            "record_ids": [
                record_id for source in sources for record_id in source.record_ids
            ],
            "message_ids": [
                message for source in sources for message in source.message_ids
            ],
            "rooms": {
                source.room: source.author or "" for source in sources if source.room
            },
            "text": filled.text,
        }

    def complete(self, slot: Slot) -> None:
        """Add a slot's default, or report it, or the parts of it that are not sent."""
        parts = [
            one
            for path, one in self._filled.items()
            if path[: len(slot.path)] == slot.path
        ]
        unsent = [one for one in parts if one.how not in SENT]
        if value_at(self.arguments, slot.path) is not None:
            for one in unsent:
                self._miss(self._name(one.path), one)
            return
        bad = problem(slot.schema["default"], slot.schema) if slot.has_default else None
        reason = f"its default does not fit: {bad}" if bad else ""
        why = unsent[0] if unsent else FilledValue(slot.path, "refused", reason=reason)
        if slot.has_default and why.how != "conflict" and not bad:
            if unsent:
                self._warn(f"{slot.name} has its default: {self._reason(why)}")
            if _set(self.arguments, slot.path, slot.schema["default"]):
                self.grounding[slot.name] = Grounding(type="default")
        elif (
            slot.required or why.how == "conflict" or (unsent and self._policy == "ask")
        ):
            self._miss(slot.name, why)
        elif unsent:
            self._warn(f"{slot.name} is left out: {self._reason(why)}")

    def _warn(self, text: str) -> None:
        self.warnings += [text] if self._policy != "drop" else []

    def _reason(self, filled: FilledValue) -> str:
        if filled.how != "offered":
            return filled.reason or self._unsaid
        if filled.origin != "user":
            return f"only offered: {_OF_OTHERS}"
        unsettled = _UNSETTLED if filled.kind == "copied" else _TO_CONFIRM
        return f"only offered: {unsettled}"

    def _miss(self, name: str, filled: FilledValue) -> None:
        if any(slot.name == name for slot in self.missing):
            return
        values = filled.text.split(" / ") if filled.how == "conflict" else []
        values = [str(filled.value)] if filled.how == "offered" else values
        self.missing.append(
            MissingSlot(name=name, reason=self._reason(filled), values=values)
        )

    def remove_unusable(
        self, schema: Mapping[str, Any], path: Path, given: dict[str, Any]
    ) -> None:
        """Remove optional parts of an object that do not fit, or hold nothing but
        defaults.

        What only lacks parts stays, and lacks them.
        """
        needed = required_in(schema)
        for name, part in properties_in(schema).items():
            inside = object_in(part)
            inner = (*path, name)
            if name not in given:
                continue
            if inside and isinstance(given[name], dict):
                self.remove_unusable(inside, inner, given[name])
                grounded = _with_outer(
                    name for name, g in self.grounding.items() if g.type != "default"
                )
                if name not in needed and slot_name(inner) not in grounded:
                    self._drop(inner, given)
                    continue
            wrong = [] if name in needed else list(errors(given[name], part))
            if not all(map(_only_lacks, wrong)):
                self._drop(inner, given)
                self.warnings.append(
                    f"{slot_name(inner)} is left out: {wrong[0].message[:200]}"
                )

    def report_errors(self, schema: Mapping[str, Any]) -> None:
        """Report every remaining schema error as a missing argument or a warning."""
        patterns = dict.fromkeys(patterns_not_run(schema)) if self.arguments else ()
        self.warnings += [
            f"nothing is checked by the pattern {pattern[:100]!r}, which RE2 cannot run"
            for pattern in patterns
        ]
        handled = set[tuple[Any, ...]]()
        named = _with_outer(slot.name for slot in self.missing)
        for error in errors(self.arguments, schema):
            place = (error.validator, *error.absolute_path, *error.absolute_schema_path)
            if error.validator in _OF_NAMES and place in handled:
                continue  # one error a name, of which each names all
            handled.add(place)
            lacking = [p for p in _lacking(error) if not (p and slot_name(p) in named)]
            reason = str(error.message)[:200]
            self.missing += [
                MissingSlot(name=slot_name(p), reason=reason) for p in lacking if p
            ]
            named |= _with_outer(slot_name(p) for p in lacking)
            if () in lacking:
                self.warnings.append(f"the arguments do not fit together: {reason}")

    def _drop(self, path: Path, given: dict[str, Any]) -> None:
        del given[path[-1]]
        self.grounding = {
            k: g for k, g in self.grounding.items() if not _is_within(k, path)
        }
        self.missing = [
            slot for slot in self.missing if not _is_within(slot.name, path)
        ]


def _lacking(error: Any) -> list[Path]:
    """The paths that a schema error is about: the absent arguments, or the one at
    fault.
    """
    path = tuple(map(str, error.absolute_path))
    if error.validator == "required":
        return [
            (*path, name)
            for name in error.validator_value
            if name not in error.instance
        ]
    if error.validator == "dependentRequired":
        needed = [
            names
            for name, names in error.validator_value.items()
            if name in error.instance
        ]
        absent = (
            n for dependent in needed for n in dependent if n not in error.instance
        )
        return [(*path, name) for name in absent]
    forms = _forms(error)
    forms = [form for form in forms if all(map(_only_lacks, form))] or forms
    # of several errors of one `required` each names all that is absent
    places = {
        (place, part.validator, *part.absolute_path, *part.absolute_schema_path): part
        for place, form in enumerate(forms)
        for part in form
    }
    inside = [lacking for part in places.values() for lacking in _lacking(part)]
    return list(dict.fromkeys(inside)) or [path]


def _only_lacks(error: Any) -> bool:
    """True for a schema error that an absent part would mend."""
    forms = _forms(error)
    return error.validator == "required" or any(
        all(map(_only_lacks, form)) for form in forms
    )


def _forms(error: Any) -> list[list[Any]]:
    """The errors of each alternative of a schema."""
    forms = dict[Any, list[Any]]()
    for part in error.context or ():
        # the error of an alternative `false` has no path
        alternative = next(iter(part.relative_schema_path), None)
        forms.setdefault(alternative, []).append(part)
    return list(forms.values())


def _is_within(slot: str, path: Path) -> bool:
    return slot == slot_name(path) or slot.startswith(slot_name(path) + ".")


def _with_outer(slots: Iterable[str]) -> set[str]:
    """The names of slots and of the objects around them."""
    names = (slot.split(".") for slot in slots)
    return {".".join(name[:n]) for name in names for n in range(1, len(name) + 1)}


def _set(arguments: dict[str, Any], path: Path, value: Any) -> bool:
    """Set a value in nested objects; False where something else stands on its path."""
    for name in path[:-1]:
        arguments = arguments.setdefault(name, {})
        if not isinstance(arguments, dict):
            return False
    arguments[path[-1]] = value
    return True
