"""The step `fill`: one model call names the source of every slot's value (Mem2ActBench 3.3).

The model chooses a candidate by its alias or quotes a source; code then copies the value from the
source, so that the model never retypes one.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from langmem_graph.grounding.evidence_sources import REQUEST, Evidence, Source, quoted_in
from langmem_graph.grounding.state import FilledSlot, GroundingDependencies, GroundingState, How
from langmem_graph.grounding.tool_schema import Slot, slots_of
from langmem_graph.grounding.type_conversion import inferred, typed
from langmem_graph.llm.answer_schemas import SlotFill, ToolFill
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import LONGEST_NAME, as_data, plain_id
from langmem_graph.runtime import StepRun
from langmem_graph.values.matching import supports


async def fill(deps: GroundingDependencies, state: GroundingState, run: StepRun) -> GroundingState:
    """Ask the model, and accept every proposal whose value stands in a source."""
    slots, evidence, usage = slots_of(state["tool"]), state["evidence"], state["usage"].copy()
    answer = None
    if slots:
        question = _question(state, slots, evidence)
        answer = await deps.runner.ask(ToolFill, load_prompt("fill"), question, usage)
    proposed: dict[str, list[SlotFill]] = defaultdict(list)
    for proposal in answer.slots if answer else []:
        proposed[proposal.slot].append(proposal)
    filled = [_filled(slot, proposed[slot.name], evidence) for slot in slots]
    return {"filled": filled, "usage": usage}


def _question(state: GroundingState, slots: Sequence[Slot], evidence: Evidence) -> str:
    tool = state["tool"]
    return "\n".join(
        [
            f"Now: {state['now']}",
            f"Tool: {tool.name}: {as_data(tool.description)}",
            "Slots:",
            *map(_slot_line, slots),
            "Sources:",
            *map(_source_line, evidence.sources),
            "Candidates:",
            *(f"{c.alias}: {as_data(c.raw)} ({c.kind}, {c.source})" for c in evidence.candidates),
        ]
    )


def _slot_line(slot: Slot) -> str:
    kinds = "/".join(slot.types) or "any"
    notes = [kinds, "required" if slot.required else "optional"]
    if slot.choices:
        notes.append("one of " + json.dumps(slot.choices, ensure_ascii=False))
    if slot.has_default:
        notes.append("default " + json.dumps(slot.schema["default"], ensure_ascii=False))
    return f"- {slot.name} ({', '.join(notes)}): {as_data(slot.description)}"


def _source_line(source: Source) -> str:
    if source.alias == REQUEST:
        return f"{source.alias}: request: {as_data(source.text)}"
    notes = " (no longer true)" if source.outdated else ""
    notes += f" ({source.confirmation})" if source.confirmation in ("draft", "inferred") else ""
    speaker = f" {plain_id(source.speaker[:LONGEST_NAME])}" if source.speaker else ""
    said = f" said: {as_data(source.said)}" if source.said else ""
    return f"{source.alias}: {source.at[:10]}{notes}{speaker} {as_data(source.text)}{said}"


def _filled(slot: Slot, proposed: Sequence[SlotFill], evidence: Evidence) -> FilledSlot:
    """The outcome of all proposals for one slot."""
    checked = [_checked(slot, proposal, evidence) for proposal in proposed]
    usable = [filled for filled in checked if filled.how != "missing"]
    if not usable:
        return checked[0] if checked else FilledSlot(slot.name, "missing")
    if "array" in slot.types and all(filled.how == "explicit" for filled in usable):
        return _list_of(slot, usable)
    if len({json.dumps(filled.value, default=str) for filled in usable}) > 1:
        return _conflict(slot, usable)
    return usable[0]


def _checked(slot: Slot, proposal: SlotFill, evidence: Evidence) -> FilledSlot:
    """The outcome of one proposal."""
    if proposal.how == "copy":
        return _copied(slot, proposal, evidence)
    sources = [source for source in evidence.named(proposal.sources) if not source.outdated]
    aliases = tuple(source.alias for source in sources)
    text = " … ".join(source.texts[0] for source in sources)
    if proposal.how == "conflict" and len(sources) > 1:
        return FilledSlot(slot.name, "conflict", sources=aliases, text=text)
    if proposal.how == "default" and slot.has_default:
        return FilledSlot(slot.name, "default", value=slot.schema["default"])
    if proposal.how == "infer" and sources and proposal.value.strip():
        value = inferred(proposal.value, slot)
        if any(source.has_superseded(str(value)) for source in sources):
            return FilledSlot(slot.name, "missing", reason="no longer true")
        said = any(supports(t, value) for source in sources for t in source.texts)
        how: How = "explicit" if said and not _has_words(value) else "inferred"
        return FilledSlot(slot.name, how, value, text, aliases)
    reason = "cites nothing that was shown" if proposal.how in ("infer", "conflict") else ""
    return FilledSlot(slot.name, "missing", reason=reason)


def _has_words(value: Any) -> bool:
    """True for a text, or something with a text in it, which the model wrote itself."""
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, str) or (
        isinstance(value, list | dict) and any(map(_has_words, parts))
    )


def _copied(slot: Slot, proposal: SlotFill, evidence: Evidence) -> FilledSlot:
    """The value of a candidate, or of words that a source contains, exactly as they stand there."""
    known = {candidate.alias: candidate for candidate in evidence.candidates}
    candidate = known.get(proposal.candidate)
    cited = [candidate.source] if candidate else proposal.sources
    raw = candidate.raw if candidate else None
    for source in evidence.named(cited):
        raw = raw or quoted_in(proposal.words, source)
        if raw is None:
            continue
        if source.outdated or source.has_superseded(raw):
            return FilledSlot(slot.name, "missing", reason="no longer true", text=raw)
        value: Any = typed(raw, slot)
        return FilledSlot(slot.name, "explicit", value=value, sources=(source.alias,), text=raw)
    return FilledSlot(slot.name, "missing", reason="does not stand in a source")


def _list_of(slot: Slot, items: Sequence[FilledSlot]) -> FilledSlot:
    return FilledSlot(
        slot.name,
        "explicit",
        value=[part for item in items for part in _parts(item.value)],
        sources=tuple(dict.fromkeys(alias for item in items for alias in item.sources)),
        text="; ".join(item.text for item in items),
    )


def _parts(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _conflict(slot: Slot, rivals: Sequence[FilledSlot]) -> FilledSlot:
    return FilledSlot(
        slot.name,
        "conflict",
        sources=tuple(dict.fromkeys(alias for rival in rivals for alias in rival.sources)),
        text=" / ".join(rival.text for rival in rivals if rival.text),
    )
