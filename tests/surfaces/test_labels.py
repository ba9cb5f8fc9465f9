"""What no longer holds is labelled in the same words wherever it is shown."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.prebuilt import ToolNode
from rich.console import Console
from typer.testing import CliRunner

from langmem_graph.cli import commands, printing, show
from langmem_graph.memory import Memory
from langmem_graph.results import Fact, Reasoning, Recall, RecallReport
from langmem_graph.tool_answers import Call
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.conftest import said
from tests.support.graphs import config
from tests.support.homes import changed, live_in, told

MOVED = (
    '(no longer true since 2025-02-05: now "Ana lives in Berlin."; "live in Berlin")'
)
SOLD = '(ended 2025-06-05: "sold the bike")'


@pytest.fixture
def moved(memory: Memory) -> Memory:
    """r1 was replaced by what m2 said, and the bike was sold."""
    ana = memory.user("ana")
    live_in(ana, "Porto")
    told(ana, "Ana lives in Berlin.", "m2", "r2", "2025-02-05", subject="user")
    ana.add([said("I live in Berlin now.", id="m3", at="2025-02-05")], session_id="x")
    changed(memory, "replaces", "r1", "m3", "live in Berlin", by="r2")
    told(ana, "Ana owns a bike.", "b1", "bike", "2025-01-05")
    ana.add([said("I sold the bike", id="b2", at="2025-06-05")], session_id="y")
    changed(memory, "ended", "bike", "b2", "sold the bike")
    return memory


def answered(memory: Memory, tool: str, **arguments: Any) -> Any:
    tools = {tool.name: tool for tool in create_memory_tools(memory)}
    call = {"name": tool, "args": arguments, "id": "c1", "type": "tool_call"}
    return tools[tool].invoke(call, config())


@pytest.mark.parametrize(
    ("tool", "arguments", "layer"),
    [
        ("search_records", {"query": "Porto bike"}, "records"),
        ("get_records", {"record_ids": ["r1", "bike"]}, "records"),
        ("search_conversation", {"query": "Porto bike"}, "messages"),
        ("get_conversation", {"message_ids": ["m1", "b1"]}, "messages"),
    ],
)
def test_every_tool(moved: Memory, tool: str, arguments: Any, layer: str) -> None:
    message = answered(moved, tool, **arguments)
    assert MOVED in message.content
    assert SOLD in message.content
    labels = [label for row in message.artifact[layer] for label in row["labels"]]
    assert {label["quote"] for label in labels} == {"live in Berlin", "sold the bike"}
    assert json.dumps(message.artifact)


def test_a_tool_node(moved: Memory) -> None:
    call = {"name": "search_records", "args": {"query": "bike"}, "id": "c1"}
    node = ToolNode(create_memory_tools(moved, user_id="ana"))
    from langgraph.graph import START, MessagesState, StateGraph

    graph = (
        StateGraph(MessagesState)
        .add_node("tools", node)
        .add_edge(START, "tools")
        .compile()
    )
    end = graph.invoke({"messages": [AIMessage("", tool_calls=[call])]})
    assert SOLD in end["messages"][-1].content


def test_mcp(moved: Memory) -> None:
    calls = pytest.importorskip("langmem_graph.mcp.server")
    tool = calls.offered(allow_forget=False)["search_records"]
    result = asyncio.run(
        calls.call_tool(tool, {"query": "Porto"}, Call(moved.user("ana")), None)
    )
    assert MOVED in result.content[0].text
    assert "live in Berlin" in json.dumps(result.structuredContent)


def test_the_retriever(moved: Memory) -> None:
    found = {
        doc.id: doc
        for doc in moved.user("ana").as_retriever(k=9).invoke("Porto Berlin bike")
    }
    assert found["m1"].metadata["label"] == MOVED
    assert found["m1"].metadata["labels"][0]["replaced_by"] == "Ana lives in Berlin."
    assert found["m1"].page_content == "I live in Porto."
    assert "label" not in found["m2"].metadata
    assert found["m2"].metadata["labels"] == []


def test_messages_and_records_by_their_ids(moved: Memory) -> None:
    ana = moved.user("ana")
    assert [
        message.outdated for message in ana.get_conversation(["m1", "m2", "b1"])
    ] == [1, 0, 1]
    assert [record.outdated for record in ana.get_records(["r1", "r2", "bike"])] == [
        1,
        0,
        1,
    ]
    assert asyncio.run(ana.asearch_records("bike"))[0].labels[0].relation == "ended"


def test_an_export_has_labels_and_comes_back(moved: Memory, tmp_path: Path) -> None:
    ana = moved.user("ana")
    rows = ana.export_records(history=True)
    labels = {row["record_id"]: row["labels"][0] for row in rows if "labels" in row}
    assert {name: label["quote"] for name, label in labels.items()} == {
        "r1": "live in Berlin",
        "bike": "sold the bike",
    }
    assert all("labels" not in row for row in [*ana.export_records(), *ana.export()])
    copy = moved.user("copy")
    for message in ana.export():
        copy.add([message], session_id=message["session_id"])
    assert not copy.add_records(rows).rejected
    assert copy.add_records(ana.get_records(["r1", "r2", "bike"])).rejected == []
    assert [record.outdated for record in copy.get_records(["r1", "r2", "bike"])] == [
        1,
        0,
        1,
    ]


def test_the_command_line(moved: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = moved.path
    moved.close()
    for name, value in {"DIR": str(path), "USER": "ana", "EMBEDDINGS": "hash"}.items():
        monkeypatch.setenv(f"LANGMEM_GRAPH_{name}", value)
    monkeypatch.setattr(printing, "console", Console(width=400))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(commands.app, [*arguments])
        assert result.exit_code == 0, result.output
        return result.output

    assert MOVED in run("search", "Porto")
    assert "I moved" not in run("search", "Porto")
    assert (
        json.loads(run("search", "Porto", "--json"))[0]["labels"][0]["quote"]
        == "live in Berlin"
    )
    assert MOVED in run("show", "--record", "r1")
    assert SOLD in run("show", "--session", "session of b1")
    assert SOLD not in run("show")
    assert SOLD not in run("show", "--as-of", "2025-03-01")
    exported = [json.loads(line) for line in run("export").splitlines()]
    assert sum("labels" in row for row in exported) == 2
    assert MOVED in run("explain", "Porto")  # without a model a plain look-up


def test_the_proof_of_explain(
    moved: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    (label,) = moved.user("ana").get_records("bike")[0].labels
    fact = Fact(
        id="record:bike", text="Ana owns a bike.", record_id="bike", labels=[label]
    )
    trace = [{"event": "memory_goal", "sufficient": ["record:bike"]}]
    report = RecallReport(milliseconds={"total": 1.0})
    found = Recall(
        context="",
        evidence=[],
        report=report,
        facts=[fact],
        reasoning=Reasoning(),
        trace=trace,
    )
    show.show_proof("bike?", found)
    shown = " ".join(capsys.readouterr().out.split())
    assert SOLD in shown
