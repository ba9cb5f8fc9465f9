"""The step `fill`: one model call that fills the arguments in the schema's own form.

The model sees the schema whole, the request and the facts, and says for each single
value which words it was taken from. Whether that is so is checked in `verify_values`.
"""

import json
from datetime import datetime
from itertools import zip_longest
from typing import Any

from langmem_graph.grounding.evidence_sources import REQUEST, Source
from langmem_graph.grounding.state import Dependencies, GroundingState
from langmem_graph.grounding.tool_schema import read_arguments, slots_of
from langmem_graph.llm.answer_schemas import ToolFill
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.retrieval.quoted_context import (
    LONGEST_NAME,
    as_data,
    label_words,
    plain_id,
    plain_json,
)
from langmem_graph.runtime import StepRun

_NOT_ARGUMENTS = "arguments is not one JSON object that follows the tool's schema"


async def fill(
    deps: Dependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Ask the model for the arguments; a tool without any costs no call."""
    usage = state["usage"].copy()
    former = state.get("proposal")
    proposal = None

    def check(answer: ToolFill) -> str | None:
        return _NOT_ARGUMENTS if read_arguments(answer.arguments) is None else None

    if slots_of(state["tool"]):
        prompt = load_prompt("fill")
        question = _question(state)
        proposal = await deps.runner.ask(ToolFill, prompt, question, usage, check)
    if former is not None:
        proposal = former if proposal is None else _joined(former, proposal)
    return {"proposal": proposal, "usage": usage}


def _joined(former: ToolFill, new: ToolFill) -> ToolFill:
    """The first answer with what the second look has added to it."""
    given = read_arguments(former.arguments) or {}
    added = read_arguments(new.arguments) or {}
    arguments = json.dumps(_completed(given, added), ensure_ascii=False)
    sources = [*former.sources, *new.sources]
    update = {"arguments": arguments, "sources": sources, "missing": new.missing}
    return former.model_copy(update=update)


def _completed(given: Any, added: Any) -> Any:
    """A value with what another one has beside it; what is given stays."""
    if isinstance(given, dict) and isinstance(added, dict):
        names = dict.fromkeys([*given, *added])
        return {name: _completed(given.get(name), added.get(name)) for name in names}
    if isinstance(given, list) and isinstance(added, list):
        pairs = zip_longest(given, added)
        return [_completed(one, other) for one, other in pairs]
    return added if given is None else given


def _question(state: GroundingState) -> str:
    tool = state["tool"]
    now = state["now"]
    chosen = ", ".join(state["model_may_choose"])
    again = ", ".join(state.get("asked_again", ()))
    shown = state["evidence"].sources
    if again:
        shown = state["evidence"].named([REQUEST, *_cited(state), *state["shown"]])
    lines = [
        f"Now: {datetime.fromisoformat(now):%A %Y-%m-%d %H:%M}"
        if now
        else "Now: unknown",
        f"Tool: {plain_id(tool.name)}: {as_data(tool.description)}",
        f"Schema: {plain_json(tool.schema)}",
        *([f"May be chosen: {as_data(chosen)}"] if chosen else []),
        *([f"Fill only: {as_data(again)}"] if again else []),
    ]
    return "\n".join([*lines, "Facts:", *map(_source_line, shown)])


def _cited(state: GroundingState) -> list[str]:
    """The facts that the first answer rests on: they say who and what is meant."""
    proposal = state["proposal"]
    assert proposal is not None, "a second look follows a first answer"
    return [source.fact for source in proposal.sources]


def _source_line(source: Source) -> str:
    if source.alias == REQUEST:
        return f"{source.alias}: request: {as_data(source.text)}"
    notes = label_words(source.labels) or (
        " (no longer true)" if source.outdated else ""
    )
    notes += (
        f" ({source.confirmation})"
        if source.confirmation in ("draft", "inferred")
        else ""
    )
    notes += " (not the user's words)" if source.origin != "user" else ""
    speaker = f" {plain_id(source.speaker[:LONGEST_NAME])}" if source.speaker else ""
    said = source.said if source.said != source.text else ""
    ending = f" said: {as_data(said)}" if said else ""
    told = f"{notes}{speaker}{source.place} {as_data(source.text)}{ending}"
    return f"{source.alias}: {source.at[:10]}{told}"
