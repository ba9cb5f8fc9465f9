"""The step `select_tool`: choose the tool that the request needs (Mem2ActBench 3.3).

Tools are ranked by the words and the meaning of name, description and parameters (reciprocal rank
fusion); the model picks one of the ten best. A single tool costs no call.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from rapidfuzz import fuzz

from langmem_graph.embeddings.embedder import Embedder
from langmem_graph.errors import EmbeddingError
from langmem_graph.grounding.state import GroundingDependencies, GroundingState
from langmem_graph.grounding.tool_schema import ToolSpec, slots_of
from langmem_graph.llm.answer_schemas import ToolChoice
from langmem_graph.llm.structured_calls import Usage, load_prompt
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.retrieval.search_common import reciprocal_rank_fusion
from langmem_graph.runtime import StepRun

SHOWN = 10
"""Tools in the prompt (Mem2ActBench)."""


async def select_tool(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Choose a tool; the best of the ranking where the model's choice cannot be used."""
    tools, usage = state["specs"], state["usage"].copy()
    chosen = tools[0]
    if len(tools) > 1:
        ranked = await asyncio.to_thread(_ranked, deps, tools, state["query"])
        chosen = await _pick(deps, ranked[:SHOWN], state["query"], usage)
    run.emit({"event": "memory_tool", "tool": chosen.name})
    return {"tool": chosen, "usage": usage}


def _ranked(deps: GroundingDependencies, tools: Sequence[ToolSpec], request: str) -> list[ToolSpec]:
    texts = [_described(tool) for tool in tools]
    words = np.array([fuzz.token_set_ratio(request, text) for text in texts], dtype=np.float64)
    meaning = _likeness(deps.services.embedder, texts, request)
    scores = reciprocal_rank_fusion([words, meaning], deps.services.settings.ranking.rrf_k)
    return [tools[place] for place in np.argsort(-scores, kind="stable").tolist()]


def _described(tool: ToolSpec) -> str:
    parts = [f"{slot.name} {slot.description}" for slot in slots_of(tool)]
    return " ".join([tool.name.replace("_", " "), tool.description, *parts])


def _likeness(embedder: Embedder, texts: Sequence[str], request: str) -> Any:
    try:
        return (embedder.embed(texts) @ embedder.embed_query(request)).astype(np.float64)
    except EmbeddingError:  # the tools are then ranked by words alone
        return np.zeros(len(texts))


async def _pick(
    deps: GroundingDependencies, tools: Sequence[ToolSpec], request: str, usage: Usage
) -> ToolSpec:
    by_alias = {f"t{place}": tool for place, tool in enumerate(tools, 1)}
    lines = [f"{alias}: {as_data(_described(tool)[:600])}" for alias, tool in by_alias.items()]
    question = "\n".join(["Tools:", *lines, f"Request: {as_data(request)}"])
    choice = await deps.runner.ask(ToolChoice, load_prompt("select_tool"), question, usage)
    return by_alias.get(choice.tool, tools[0]) if choice else tools[0]
