"""`metadata` and `where` on every surface: what is stored, what is found, and what is refused."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.graph import StateGraph
from typer.testing import CliRunner

from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError
from langmem_graph.filters import parsed
from langmem_graph.graphs import (
    create_recall_graph,
    create_recall_node,
    create_write_node,
)
from langmem_graph.graphs.nodes import MemoryState
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools import create_memory_tools
from tests.conftest import said

ATLAS = {"project": "atlas"}
ANA: Any = {"configurable": {"user_id": "ana", "session_id": "now", "where": {}}}


def fill(memory: Memory) -> Any:
    ana = memory.user("ana")
    for project in ("atlas", "zeus"):
        own = said(f"the budget of {project} is small", id=project)
        ana.add(own, session_id="s", metadata={"project": project}, agent_id=7)
        row = {"record_id": f"r-{project}", "text": f"{project} has a small budget"}
        ana.add_records({**row, "source_message_ids": [project], "subject": project})
    return ana


def test_metadata_is_kept_shown_exported_and_forgotten(memory: Memory) -> None:
    ana = fill(memory)
    own = [said("own words", id="own", metadata={"n": 1}, agent_id="coder")]
    ana.add(own, session_id="t", metadata={"n": 2, "project": "atlas"})
    message = ana.get_conversation("own")[0]
    assert (message.metadata, message.agent_id) == (
        {"n": 1, "project": "atlas"},
        "coder",
    )
    assert ana.get_records("r-atlas")[0].metadata == ATLAS
    assert ana.search_records("budget", where=ATLAS)[0].metadata == ATLAS
    bob = memory.user("bob")
    for row in ana.export():
        bob.add(row, session_id=row["session_id"])
    assert bob.export() == ana.export()
    bob.add_records(ana.export_records())
    assert bob.get_records("r-atlas", where={"agent_id": 7})[0].metadata == ATLAS
    ana.forget(message="own")
    assert ana.search_conversation("words", where={"n": {"$exists": True}}) == []
    assert len(ana.search_conversation("budget", where=ATLAS)) == 1


def test_by_hand(memory: Memory) -> None:
    ana = fill(memory)
    corrected = ana.correct("r-atlas", "The budget is large.")
    remembered = ana.remember("The budget is due in May.", metadata=ATLAS)
    found = {hit.record_id for hit in ana.search_records("budget", where=ATLAS)}
    assert found == {corrected.record_id, remembered.record_id}  # one of the chain
    assert (
        ana.search_records("budget due in May", where={"project": "zeus"}, k=9)[
            0
        ].record_id
        == "r-zeus"
    )


def test_nodes_and_middleware(memory: Memory) -> None:
    fill(memory)
    asked = {"messages": [HumanMessage("What about the budget?", id="asked")]}
    graph = StateGraph(MemoryState)
    graph.add_node("recall", create_recall_node(memory, where=ATLAS))
    graph.add_node(
        "write", create_write_node(memory, metadata=ATLAS, agent_id="planner")
    )
    graph.set_entry_point("recall")
    graph.add_edge("recall", "write")
    context = graph.compile().invoke(asked, ANA)["memory_context"]
    assert "atlas" in context
    assert "zeus" not in context
    where = {"agent_id": "planner", **ATLAS}
    assert [
        hit.message_id
        for hit in memory.user("ana").search_conversation("budget", where=where)
    ] == ["asked"]
    model = ScriptedChatModel(script=["Fine."])
    middleware = MemoryMiddleware(memory, where=ATLAS, metadata={"project": "hermes"})
    agent = create_agent(model, middleware=[middleware])
    asyncio.run(
        agent.ainvoke(
            {"messages": [HumanMessage("Is the budget small?", id="two")]}, ANA
        )
    )
    sent = str(model.requests[0])
    assert "atlas" in sent
    assert "zeus" not in sent
    hermes = memory.user("ana").search_conversation(
        "budget", where={"project": "hermes"}
    )
    assert hermes[0].message_id == "two"


def test_a_model_cannot_widen_the_filter_of_its_tools(memory: Memory) -> None:
    ana = fill(memory)
    made = create_memory_tools(
        memory, user_id="ana", where=ATLAS, metadata=ATLAS, allow_forget=True
    )
    tools = {tool.name: tool for tool in made}
    wide = {"query": "budget", "where": {}, "k": 99}
    for name in ("search_records", "search_conversation"):
        assert "zeus" not in (answer := str(tools[name].invoke(wide, ANA)))
        assert "atlas" in answer
    assert "No record has these ids" in tools["get_records"].invoke(
        {"record_ids": ["r-zeus"]}
    )
    assert "No message has" in tools["get_conversation"].invoke(
        {"message_ids": ["zeus"]}
    )
    refused = tools["correct"].invoke({"record_id": "r-zeus", "text": "It is large."})
    assert "There is no record" in refused
    assert ana.get_records("r-zeus")[0].status == "active"
    tools["remember"].invoke({"text": "Ana likes the budget."})
    assert "Ana likes" in str(tools["search_records"].invoke({"query": "likes"}))
    retriever = ana.as_retriever(k=9, where=ATLAS)
    assert retriever.invoke("budget", where={"project": "zeus"}) == []
    assert (
        retriever.invoke("budget", where={"agent_id": 7})[0].metadata["metadata"]
        == ATLAS
    )


def test_mcp(memory: Memory) -> None:
    server = pytest.importorskip("langmem_graph.mcp.server")
    fill(memory)
    call = server.Call(memory.user("ana"), where=ATLAS)
    tools = server.offered(allow_forget=True)
    context = SimpleNamespace(session=SimpleNamespace(client_params=None), request_id=1)
    asked = {"search_records": {"query": "budget"}, "search_conversation": {"query": "budget"},
             "get_records": {"record_ids": ["r-zeus"]}, "read_file": {"name": "profile.md"},
             "forget": {"record_id": "r-zeus", "confirm": True}}  # fmt: skip
    for name, given in asked.items():
        answer = asyncio.run(server.call_tool(tools[name], given, call, context))
        assert "the budget of zeus" not in str(answer)
        assert "zeus has" not in str(answer)
    assert memory.user("ana").get_records("r-zeus")
    with pytest.raises(InvalidInputError, match="As in where="):
        server.create_mcp_server(memory, user_id="ana", where={"$bad": 1})


def test_the_command_line(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        fill(memory)
    words = [
        "search",
        "budget",
        "-u",
        "ana",
        "-m",
        str(tmp_path / "m"),
        "--embeddings",
        "hash",
    ]
    found = CliRunner().invoke(app, [*words, "--json", "--where", json.dumps(ATLAS)])
    assert [hit["message_id"] for hit in json.loads(found.stdout)] == ["atlas"]
    broken = CliRunner().invoke(app, [*words, "--where", "project=atlas"])
    assert "is not JSON" in str(broken.exception)


def test_reasoning_under_a_filter_and_asynchronously(tmp_path: Path) -> None:
    model = ScriptedChatModel()
    with Memory(tmp_path / "m", model=model, embeddings="hash") as memory:
        ana = fill(memory)
        graph = create_recall_graph(memory, mode="reason", where=ATLAS)
        asked = {"messages": [HumanMessage("What is the budget?")]}
        told = [graph.invoke(asked, ANA)["memory_context"]]
        for mode in ("fast", "reason"):
            told.append(
                asyncio.run(ana.arecall("the budget", mode=mode, where=ATLAS)).context
            )
        tool = {
            "title": "pay",
            "type": "object",
            "properties": {"budget": {"type": "string"}},
        }
        asyncio.run(ana.aground(tool, "pay the budget", where=ATLAS))
        ana.ground(tool, "pay the budget", where=ATLAS)
        assert all("atlas" in context and "zeus" not in context for context in told)
        assert "zeus" not in str(model.asked)
        assert "ToolFill" in str(model.asked)


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ({}, "at least one key"),
        ("project", "at least one key"),
        ({"$not": {"a": 1}}, r"\$and and \$or can"),
        ({"a": {"$like": "x"}}, "no operator '\\$like'"),
        ({"a b": 1}, "cannot be a key"),
        ({"a": None}, "must be a text"),
        ({"a": {"b": 1}}, "no operator 'b'"),
        ({"a": {}}, "compared with nothing"),
        ({"a": {"$in": []}}, "at least one value"),
        ({"a": {"$in": "xy"}}, "takes a list"),
        ({"a": {"$in": [1, "x"]}}, "of one type"),
        ({"a": {"$exists": 1}}, "True or False"),
        ({"a": float("nan")}, "number from"),
        ({"a": 2**60}, "give a longer one as a text"),
        ({"at": {"$gte": "soon"}}, "Not a time"),
        ({"$or": []}, "takes a list of filters"),
        ({"$and": [{"a": 1}, {}]}, "at least one key"),
        ({"a": {"$in": list(range(1_001))}}, "more than 1,000"),
    ],
)  # fmt: skip
def test_a_filter_that_cannot_be_used(memory: Memory, where: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        memory.user("nobody").recall("x", where=where)
    deep: Any = {"a": 1}
    for _ in range(9):
        deep = {"$and": [deep]}
    with pytest.raises(InvalidInputError, match="nested"):
        parsed(deep)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (["a"], "must be a dict"),
        ({"role": "x"}, "reserved"),
        ({"$a": 1}, "cannot be a key"),
        ({"a": [1]}, "must be a text, a number"),
        ({"a": "x" * 501}, "at most 500"),
        ({"a": "\0"}, "without"),
        ({"a": float("inf")}, "number from"),
        ({f"k{n}": n for n in range(33)}, "at most 32"),
    ],
)
def test_metadata_that_cannot_be_stored(
    memory: Memory, metadata: Any, problem: str
) -> None:
    ana = memory.user("ana")
    with pytest.raises(InvalidInputError, match=problem):
        ana.add(said("x"), session_id="s", metadata=metadata)
    report = ana.add([said("x", metadata=metadata), said("y")], session_id="s")
    assert len(report.stored) == 1
    assert len(report.rejected) == 1


def test_every_reader_refuses_a_filter_that_it_cannot_use(memory: Memory) -> None:
    ana, bad = fill(memory), {"$bad": 1}
    asked: dict[str, tuple[Any, ...]] = {
        **dict.fromkeys(
            ("recall", "search_conversation", "search_records"), ("budget",)
        ),
        **dict.fromkeys(
            ("get_records", "get_conversation", "made_of", "history", "changes"), ("x",)
        ),
        **dict.fromkeys(("neighbours", "conversation"), ("x",)),
        **dict.fromkeys(("sessions", "export", "records", "export_records"), ()),
        **dict.fromkeys(("schedule", "compare"), ("2026-01-01", "2026-02-01")),
    }
    for name, given in asked.items():
        with pytest.raises(InvalidInputError, match="As in where="):
            getattr(ana, name)(*given, where=bad)
        assert "zeus" not in str(getattr(ana, name)(*given, where=ATLAS))
        assert "zeus" not in str(
            asyncio.run(getattr(ana, f"a{name}")(*given, where=ATLAS))
        )
