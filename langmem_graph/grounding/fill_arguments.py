"""The step `fill`: one model call that fills the arguments in the schema's own form.

The model sees the schema whole, the request and the facts, and says for each single
value which words it was taken from. Whether that is so is checked in `verify_values`.
"""

from datetime import datetime

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
    proposal = None

    def check(answer: ToolFill) -> str | None:
        return _NOT_ARGUMENTS if read_arguments(answer.arguments) is None else None

    if slots_of(state["tool"]):
        prompt = load_prompt("fill")
        question = _question(state)
        proposal = await deps.runner.ask(ToolFill, prompt, question, usage, check)
    return {"proposal": proposal, "usage": usage}


def _question(state: GroundingState) -> str:
    tool = state["tool"]
    now = state["now"]
    chosen = ", ".join(state["model_may_choose"])
    lines = [
        f"Now: {datetime.fromisoformat(now):%A %Y-%m-%d %H:%M}"
        if now
        else "Now: unknown",
        f"Tool: {plain_id(tool.name)}: {as_data(tool.description)}",
        f"Schema: {plain_json(tool.schema)}",
        *([f"May be chosen: {as_data(chosen)}"] if chosen else []),
    ]
    return "\n".join([*lines, "Facts:", *map(_source_line, state["evidence"].sources)])


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
