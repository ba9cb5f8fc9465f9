"""The graphs that langgraph.json serves: their input, what Studio draws, and what it shows."""

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go, said
from tests.support.marks import needs_model
from tests.support.reasoning import ANA
from tests.support.recalled import PALM, PUPPY, acting
from tests.support.writing import echo

REPOSITORY = Path(__file__).parents[2]
SERVED: dict[str, str] = json.loads((REPOSITORY / "langgraph.json").read_text())[
    "graphs"
]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Loads the files as a server does, with a model for memory or without."""
    loaded = []
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    for name in ("OPENAI_API_KEY", "CHAT_MODEL", "CHAT_BASE_URL", "POSTGRES_URI"):
        monkeypatch.delenv(name, raising=False)

    def load(name: str, model: Any) -> tuple[Any, Any]:
        monkeypatch.setenv("LANGMEM_GRAPH_DIR", str(tmp_path / f"{name}-{bool(model)}"))
        monkeypatch.setenv("LANGMEM_GRAPH_MODEL", "openai:any" if model else "")
        monkeypatch.setattr(
            "langchain.chat_models.init_chat_model", lambda *_, **__: model
        )
        path, graph = SERVED[name].split(":")
        names = runpy.run_path(str(REPOSITORY / path))
        memory = names.get("memory")
        loaded.extend([memory] if memory else [])
        return names[graph], memory

    yield load
    let_go(*loaded)


@pytest.mark.parametrize("has_model", [False, True])
@pytest.mark.parametrize("name", SERVED)
def test_messages_are_all_that_a_client_sends(
    load: Any, name: str, has_model: bool
) -> None:
    graph, _ = load(name, ScriptedChatModel() if has_model else None)
    given = set(graph.get_input_jsonschema()["properties"])
    assert given == {"messages"} | (
        {"request", "tools"} if name == "grounding" else set()
    )
    assert set(graph.get_context_jsonschema()["properties"]) == {"user_id"}


def test_studio_draws_every_step_by_name(load: Any) -> None:
    graph, _ = load("studio", ScriptedChatModel())
    drawn = graph.get_graph(xray=True)
    steps = {
        "recall": "route first_lookup counterfactual conflicts context".split(),
        "recall:goals": "plan further retrieve unify refine".split(),
        "write": ["append", "report"],
        "write:extraction": "claim extract compare reconcile verify commit topics profile".split(),
    }
    named = {f"{where}:{step}" for where, own in steps.items() for step in own}
    assert named | {"chat"} <= set(drawn.nodes)
    edges = {(edge.source, edge.target, edge.conditional) for edge in drawn.edges}
    assert ("recall:goals:__end__", "recall:counterfactual", True) in edges
    assert ("recall:goals:unify", "recall:goals:refine", True) in edges
    assert ("recall:goals:refine", "recall:goals:retrieve", True) in edges
    assert "write:extraction:extract" in drawn.draw_mermaid().replace("\\3a", ":")


async def test_studio_shows_what_was_recalled_and_what_was_written(load: Any) -> None:
    model = ScriptedChatModel(answers={**acting().answers, "Extraction": echo})
    graph, memory = load("studio", model)
    graph = graph.copy({"checkpointer": InMemorySaver()})  # as a server gives it
    memory.user("ana").add([said(PUPPY)], session_id="s")
    thread: Any = {"configurable": {**ANA["configurable"], "thread_id": "t"}}
    parts = [part async for part in graph.astream(
        {"messages": [("user", PALM)]}, thread, stream_mode=["custom", "values"], subgraphs=True
    )]  # fmt: skip
    sent = {part["event"]: part for _, kind, part in parts if kind == "custom"}
    _, _, end = parts[-1]
    assert PUPPY in sent["memory_recall"]["context"]
    assert end["memory_context"] == sent["memory_recall"]["context"]
    assert end["memory_recall"]["reasoning"]["risks"]
    assert PUPPY in end["messages"][-1].text  # it recites what it was shown
    assert end["memory_report"]["write"]["stored"] == 2
    assert end["memory_report"]["read"]["stored"] > 0
    later = await graph.ainvoke({"messages": [("user", "Thanks!")]}, thread)
    # nothing doubled
    assert [m.text for m in later["messages"][::2]] == [PALM, "Thanks!"]
    assert "Check this before" in end["memory_context"]
    # nothing left of the turn before
    assert "Check this before" not in later["memory_context"]
    assert later["memory_report"]["write"]["stored"] == 2


async def test_without_a_model_studio_shows_the_context_in_its_report(
    load: Any,
) -> None:
    graph, memory = load("studio", None)
    memory.user("ana").add([said("I always take an aisle seat.")], session_id="s")
    end = await graph.ainvoke({"messages": [("user", "Which seat?")]}, ANA)
    assert "aisle seat" in end["memory_report"]["recall"]["context"]
    assert end["memory_report"]["write"]["stored"] == 2


@needs_model
def test_a_graph_of_ones_own_is_drawn_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "docs/server.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block, names)
    for step in ("first_lookup", "refine", "counterfactual", "extract", "report"):
        assert f"({step})" in names["drawn"], step
    end = names["graph"].invoke({"messages": [("user", "Hello.")]}, ANA)
    assert end["messages"][-1].text == "Yes."
    assert end["memory_report"]["write"]["stored"] == 2
    let_go(names["memory"])


def test_a_chatbot_that_is_served_shows_nothing_that_was_recalled(load: Any) -> None:
    graph, _ = load("chatbot", None)
    assert set(graph.get_output_jsonschema()["properties"]) == {"messages"}
