"""The page on several agents: its blocks run as printed, with the real packages."""

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool

from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go, said
from tests.support.marks import needs_model

PAGE = (Path(__file__).parents[2] / "docs/multi-agent.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# (.+?)\n(.*?)```", PAGE, re.DOTALL))
SEAT = "I always take seat 12A."
PACKAGES = {
    "supervisor": "langgraph_supervisor",
    "swarm": "langgraph_swarm",
    "deepagents": "deepagents",
    "functional": "langgraph",
}
pytestmark = [
    needs_model,
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
]


@tool
def book_flight(destination: str, seat: str) -> str:
    """Book a flight."""
    return f"booked {destination}, seat {seat}"


def call(name: str, **args: Any) -> AIMessage:
    return AIMessage(
        "", tool_calls=[{"name": name, "args": args, "id": f"call-{name}"}]
    )


def playing(
    steps: dict[str, Sequence[AIMessage | str]],
) -> Callable[[list[BaseMessage]], Any]:
    """A script for all agents: who is asked is told by the rules, and where by the tools' answers.

    `SEAT?` in a call is the seat, if the request shows it.
    """

    def answer(messages: list[BaseMessage]) -> Any:
        if messages[-1].text == SEAT:
            return "Noted."
        shown = "\n".join(m.text for m in messages if m.type != "system")
        seat = "12A" if "seat 12A" in shown else "unknown"
        rules = messages[0].text if messages[0].type == "system" else ""
        own = next(given for start, given in steps.items() if rules.startswith(start))
        done = {m.name for m in messages if m.type == "tool"}
        for step in own:
            if isinstance(step, str):
                return step.replace("SEAT?", seat)
            name, args = step.tool_calls[0]["name"], step.tool_calls[0]["args"]
            if name not in done:
                return call(
                    name, **{k: v.replace("SEAT?", seat) for k, v in args.items()}
                )
        return "Nothing is left."

    return answer


BOOK = call("book_flight", destination="Oslo", seat="SEAT?")
BOOKED = "Booked: Oslo, SEAT?."
TO_FLIGHTS = call("transfer_to_flights")
LOOK = call("search_conversation", query="usual seat")
TASK = call("task", description="Book a flight to Oslo.", subagent_type="booker")
STEPS: dict[str, dict[str, Sequence[AIMessage | str]]] = {
    "supervisor": {"Give flights": [TO_FLIGHTS, BOOKED], "You book": [BOOK, "Done."]},
    "swarm": {"You are the desk": [TO_FLIGHTS], "You book": [BOOK, BOOKED]},
    "deepagents": {
        "You are a travel": [TASK, BOOKED],
        "You book": [LOOK, BOOK, "Done."],
    },
    "functional": {"": [BOOKED]},
}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("host", PACKAGES)
def test_what_one_agent_was_told_another_acts_on(
    host: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip(PACKAGES[host], reason=f"{PACKAGES[host]} is not installed")
    monkeypatch.chdir(tmp_path)
    model = ScriptedChatModel(script=playing(STEPS[host]))
    names: dict[str, Any] = {"model": model, "book_flight": book_flight}
    is_async = (host, way) == ("functional", "ainvoke")
    exec(as_async(BLOCKS[host]) if is_async else BLOCKS[host], names)
    told: Any = {"messages": [("user", SEAT)]}
    earlier: Any = {"configurable": {"user_id": "alice", "thread_id": "sunday"}}
    if way == "invoke":
        names["graph"].invoke(told, earlier)
        exec(BLOCKS["run"], names)
    else:
        names["graph"], graph = _Awaited(names["graph"]), names["graph"]
        asyncio.run(graph.ainvoke(told, earlier))
        exec(BLOCKS["run"], names)
    assert capsys.readouterr().out == "Booked: Oslo, 12A.\n"

    memory = names["memory"]
    rows = [
        row for row in memory.user("alice").export() if row.get("origin") != "plumbing"
    ]
    user = [row["content"] for row in rows if row["role"] == "user"]
    # each once, and no agent's words
    assert user == [SEAT, "Book my usual seat to Oslo."]
    assert [row["content"] for row in rows].count("Booked: Oslo, 12A.") == 1
    assert memory.users()[0].user_id == "alice" and len(memory.users()) == 1
    assert not any(m.text.startswith("<memory>") for m in names["done"]["messages"])
    let_go(memory)


def as_async(block: str) -> str:
    """The functional API's block with `async def`, as the page says how."""
    for name in ("recall", "write", "model"):
        block = block.replace(f"{name}.invoke(", f"await {name}.ainvoke(")
    block = re.sub(r"^def (answer|graph)\b", r"async def \1", block, flags=re.MULTILINE)
    return block.replace("[answer(messages).result()]", "[await answer(messages)]")


class _Awaited:
    """A graph whose `invoke` is run by `ainvoke`, for a block that is printed with the former."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def invoke(self, *given: Any) -> Any:
        return asyncio.run(self.graph.ainvoke(*given))


def test_a_checkpoint_of_the_functional_api_holds_no_recalled_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": ScriptedChatModel(script=["Yes."])}
    exec(BLOCKS["functional"], names)
    names["memory"].user("alice").add([said(SEAT)], session_id="s")
    exec(BLOCKS["run"], names)
    assert SEAT in str(names["model"].requests)
    saver = names["graph"].checkpointer
    saved = (
        str(list(saver.list(names["config"])))
        + str(dict(saver.blobs))
        + str(saver.writes)
    )
    assert "Book my usual seat" in saved
    assert "12A" not in saved
    let_go(names["memory"])


def test_an_agent_with_notes_of_its_own_is_shown_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"model": ScriptedChatModel(script=["Yes."])}
    exec(BLOCKS["own notes"], names)
    alice = names["memory"].user("alice")
    alice.add([said(SEAT)], session_id="s", agent_id="desk")
    alice.add([said("I take seat 3 in class.")], session_id="t", agent_id="tutor")
    exec(BLOCKS["run"], names)
    (request,) = names["model"].requests
    assert "seat 3" in request[1].text
    assert "12A" not in str(request)
    let_go(names["memory"])


def test_every_block_is_run_here() -> None:
    assert set(BLOCKS) == {*PACKAGES, "own notes", "run"}
    assert PAGE.count("```python") == len(BLOCKS)
