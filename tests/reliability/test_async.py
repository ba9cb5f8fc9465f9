"""Nothing blocks the caller's event loop: what `langgraph dev` refuses, on every asynchronous path.

Methods, nodes, tools, the recall graph, the store and the retriever have such a test beside their
others; here are the remaining ones.
"""

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain.agents import create_agent
from langchain_core.messages import AIMessage

from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.threads import AT_ONCE, in_thread_of
from tests.conftest import said
from tests.support.isolation import Send, config_of
from tests.support.models import steady_model

CONFIG = config_of("ana")
ACT = {"messages": [("user", "Shall I tell my secret to the gardener?")]}


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[Memory]:
    settings = Settings(
        extraction=ExtractionSettings(debounce_seconds=0.0),
        storage=StorageSettings(closing_seconds=5, index_batch=4),
    )
    path = tmp_path / "m"
    opened = await asyncio.to_thread(
        Memory, path, model=steady_model(), embeddings="hash", settings=settings
    )
    async with opened:
        talk = [said(f"My secret {n} is in the garden.", id=f"m{n}") for n in range(6)]
        await opened.user("ana").aadd(talk, session_id="s")
        yield opened


def warm(memory: Memory) -> None:
    """Modules are imported once, outside: an import reads files."""
    ana = memory.user("ana")
    ana.recall("secret", mode="reason")
    ana.ground(Send, "Send my secret.")


async def test_the_detector_sees_a_blocking_call(tmp_path: Path) -> None:
    with blockbuster_ctx(), pytest.raises(BlockingError):
        (tmp_path / "file").write_text("x")


async def test_opening_reading_and_closing(memory: Memory, tmp_path: Path) -> None:
    ana = memory.user("ana")
    with blockbuster_ctx():
        await ana.aflush()
        await ana.aadd(said("One more secret.", id="late"), session_id="t")
        ana.flush_soon()
        assert await ana.adrain(30)
        assert len(await ana.aexport()) == 7
        assert await ana.aexport_records(history=True)
        other = await asyncio.to_thread(Memory, tmp_path / "other", embeddings="hash")
        async with other:
            await other.user("bob").aadd(said("hello", id="1"), session_id="s")
            await other.user("bob").arebuild()
            await other.user("bob").aerase()
        await memory.aclose()


async def test_calls_that_were_left_keep_their_turn_until_they_end() -> None:
    """Else each wave of timeouts would begin as many threads again."""
    go_on = threading.Event()
    begun = list[int]()

    def work(number: int) -> None:
        begun.append(number)
        go_on.wait(30)

    left = [
        asyncio.create_task(in_thread_of("ana", partial(work, n)))
        for n in range(AT_ONCE)
    ]
    await asyncio.sleep(0.3)
    for task in left:
        task.cancel()
    await asyncio.wait(left)
    late = asyncio.create_task(in_thread_of("ana", partial(work, AT_ONCE)))
    await asyncio.sleep(0.3)
    assert sorted(begun) == list(range(AT_ONCE))
    go_on.set()
    await late
    assert begun[-1] == AT_ONCE


async def test_reasoning_with_counterfactuals(memory: Memory) -> None:
    warm(memory)
    graph = create_recall_graph(memory, answer=True)
    await graph.ainvoke(ACT, CONFIG)
    with blockbuster_ctx():
        found = await memory.user("ana").arecall(
            "Shall I tell my secret?", mode="reason"
        )
        assert found.reasoning is not None
        assert found.reasoning.risks
        done = await graph.ainvoke(ACT, CONFIG)
        assert done["memory_context"]


@pytest.mark.parametrize("kind", ["retriever", "function", "coroutine"])
async def test_the_goal_graph_over_any_search(memory: Memory, kind: str) -> None:
    own = memory.user("ana")

    def search(query: str, k: int) -> list[str]:
        return [hit.text for hit in own.search_conversation(query, k)]

    async def asearch(query: str, k: int) -> list[str]:
        return [hit.text for hit in await own.asearch_conversation(query, k)]

    places: dict[str, Any] = {
        "retriever": own.as_retriever(),
        "function": search,
        "coroutine": asearch,
    }
    graph = create_goal_graph(places[kind], model=steady_model())
    await graph.ainvoke({"query": "What is the secret?"})
    with blockbuster_ctx():
        done = await graph.ainvoke({"query": "What is the secret?"})
    assert done["proof"]["subgoals"]


async def test_grounding_and_the_write_graph(memory: Memory) -> None:
    warm(memory)
    grounding, write = (
        create_grounding_graph(memory, tools=[Send]),
        create_write_graph(memory),
    )
    with blockbuster_ctx():
        call = await memory.user("ana").aground(Send, "Send my secret.")
        assert call.name == "Send"
        done = await grounding.ainvoke(ACT, CONFIG)
        assert done["call"]["name"] == "Send"
        report = (await write.ainvoke(ACT, CONFIG))["memory_report"]
    assert report["write"]["stored"] == 1
    assert report["read"]["status"] == "ok"


async def test_an_agent_whose_calls_are_grounded(memory: Memory) -> None:
    warm(memory)

    async def send(note: str = "") -> str:
        """Send the secret."""
        return f"sent {note}"

    call = {"name": "send", "args": {"note": "something else"}, "id": "c1"}
    model = ScriptedChatModel(script=[AIMessage("", tool_calls=[call]), "done"])
    for mode in ("fast", "auto"):
        middleware = MemoryMiddleware(memory, mode=mode, ground_tools=[Send, send])  # type: ignore[arg-type]
        agent = create_agent(model, tools=[send], middleware=[middleware])
        with blockbuster_ctx():
            done = await agent.ainvoke(ACT, CONFIG)
        model.requests.clear()
        assert done["messages"][-1].text == "done"


async def test_mcp(memory: Memory) -> None:
    pytest.importorskip("mcp")
    from mcp.shared.memory import create_connected_server_and_client_session

    from langmem_graph.mcp.server import create_mcp_server

    await memory.user("ana").aflush()
    server = create_mcp_server(memory, user_id="ana", allow_forget=True, trust="user")
    async with create_connected_server_and_client_session(server) as client:
        with blockbuster_ctx():
            await client.list_tools()
            for tool in ("search_records", "search_conversation"):
                assert not (await client.call_tool(tool, {"query": "secret"})).isError
            assert not (
                await client.call_tool("remember", {"text": "A new secret."})
            ).isError
            for file in (await client.list_resources()).resources:
                await client.read_resource(file.uri)
            forgetting = {"record_id": "none", "confirm": True}
            assert not (await client.call_tool("forget", forgetting)).isError


async def test_the_store(tmp_path: Path) -> None:
    store = await asyncio.to_thread(ChromaStore, tmp_path / "m", embeddings="hash")
    with blockbuster_ctx():
        async with store:
            await store.aput(("a",), "k", {"text": "the garden"})
            assert await store.asearch(("a",), query="garden")
            assert await store.aget(("a",), "k")
            assert await store.alist_namespaces() == [("a",)]
            await store.arebuild()
            await store.adelete(("a",), "k")
