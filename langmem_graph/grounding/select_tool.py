"""select_tool: of several tools the one that the request needs (methods 3.3).

Words and meaning rank name, description and parameters (reciprocal rank fusion); of the ten best
the model picks one. A single tool costs no call.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from rapidfuzz import fuzz

from langmem_graph.embeddings._embedder import Embedder
from langmem_graph.errors import EmbeddingError
from langmem_graph.grounding.slots import slots_of
from langmem_graph.grounding.state import GroundingDependencies, GroundingState
from langmem_graph.grounding.tool_spec import ToolSpec
from langmem_graph.llm.contracts import ToolChoice
from langmem_graph.llm.structured import Usage, load_prompt
from langmem_graph.ranking.fusion import reciprocal_rank_fusion
from langmem_graph.recall.quotes import as_data
from langmem_graph.steps import StepRun

MOST = 10
"""Tools that are shown to the model (Mem2ActBench)."""


async def select_tool(
    deps: GroundingDependencies, state: GroundingState, run: StepRun
) -> GroundingState:
    """Choose; the best of the ranking where the model's choice cannot be used."""
    specs = [ToolSpec(**one) for one in state["tools"]]
    usage = Usage.of(state.get("usage"))
    if len(specs) > 1:
        ranked = await asyncio.to_thread(_ranked, deps, specs, state["request"])
        specs = [await _pick(deps, ranked[:MOST], state["request"], usage)]
    event = {"event": "memory_tool", "tool": specs[0].name}
    run.emit(event)
    return {"tool": vars(specs[0]), "usage": usage.as_dict(), "trace": [event]}


def _ranked(deps: GroundingDependencies, specs: Sequence[ToolSpec], request: str) -> list[ToolSpec]:
    texts = [_described(spec) for spec in specs]
    words = np.array([fuzz.token_set_ratio(request, text) for text in texts], dtype=np.float64)
    meaning = _likeness(deps.services.embedder, texts, request)
    scores = reciprocal_rank_fusion([words, meaning], deps.services.settings.rrf_k)
    return [specs[place] for place in np.argsort(-scores, kind="stable").tolist()]


def _described(spec: ToolSpec) -> str:
    parts = [f"{slot.name} {slot.description}" for slot in slots_of(spec)]
    return " ".join([spec.name.replace("_", " "), spec.description, *parts])


def _likeness(embedder: Embedder, texts: Sequence[str], request: str) -> Any:
    try:
        return (embedder.embed(texts) @ embedder.embed_query(request)).astype(np.float64)
    except EmbeddingError:  # the words alone rank
        return np.zeros(len(texts))


async def _pick(
    deps: GroundingDependencies, specs: Sequence[ToolSpec], request: str, usage: Usage
) -> ToolSpec:
    named = {f"t{place}": spec for place, spec in enumerate(specs, 1)}
    lines = [f"{alias}: {as_data(_described(spec)[:600])}" for alias, spec in named.items()]
    question = "\n".join(["Tools:", *lines, f"Request: {as_data(request)}"])
    choice = await deps.asker.ask(ToolChoice, load_prompt("select_tool"), question, usage)
    return named.get(choice.tool, specs[0]) if choice else specs[0]
