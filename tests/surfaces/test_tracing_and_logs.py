"""What can be watched from outside: spans, LangSmith's names, logs; and that no text is in them."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.tracers.context import register_configure_hook
from langgraph.graph import START, StateGraph
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from langmem_graph import tracing
from langmem_graph.errors import LangMemGraphError
from langmem_graph.graphs.goal_graph import create_goal_graph
from langmem_graph.graphs.nodes import (
    MemoryState,
    create_recall_node,
    create_write_node,
    with_memory,
)
from langmem_graph.graphs.recall_graph import create_recall_graph
from langmem_graph.ids_and_times import folder_name
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.conftest import TroubledEmbeddings, said
from tests.support.isolation import ASKED, Send, config_of
from tests.support.models import ANSWERS, echo, steady_model

CANARY = "quetzalcoatl"
QUICK = Settings(
    extraction=ExtractionSettings(debounce_seconds=0.0),
    storage=StorageSettings(closing_seconds=5, index_batch=4),
)


def told(user: str = "ana", session: str = "s") -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"My secret {n} is {CANARY}.", "id": f"m{n}"}
        for n in range(5)
    ]


# --- spans ---


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What was recorded; a provider of the test's own, since OpenTelemetry keeps the first."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "_tracer", lambda: provider.get_tracer(tracing.NAME))
    return exporter


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    path = tmp_path / "m"
    with Memory(
        path, model=steady_model(), embeddings="hash", settings=QUICK
    ) as opened:
        yield opened


def names(spans: InMemorySpanExporter) -> set[str]:
    return {
        one.name.removeprefix("langmem_graph.") for one in spans.get_finished_spans()
    }


def assert_no_text(recorded: tuple[ReadableSpan, ...]) -> None:
    for one in recorded:
        assert one.name.startswith("langmem_graph.")
        assert CANARY not in one.to_json().lower()
        assert "ana" not in map(str, (one.attributes or {}).values())
        for value in (one.attributes or {}).values():
            assert isinstance(value, int | float | bool) or len(value) <= 64


def test_operations_have_the_names_of_opentelemetrys_conventions(
    memory: Memory, spans: InMemorySpanExporter
) -> None:
    ana = memory.user("ana")
    ana.add(told(), session_id="s")
    ana.search_records("secret")
    asyncio.run(ana.arecall("secret"))
    record = ana.remember("I like tea.")
    ana.correct(record.record_id, "I like coffee.")
    ana.forget(message="m1")
    ana.erase()
    ours = {one.name: dict(one.attributes or {}) for one in spans.get_finished_spans()}
    operations = {
        name.removeprefix("langmem_graph."): attributes["gen_ai.operation.name"]
        for name, attributes in ours.items()
        if "gen_ai.operation.name" in attributes
    }
    assert operations == {
        "add": "create_memory",
        "remember": "create_memory",
        "search_records": "search_memory",
        "recall": "search_memory",
        "correct": "update_memory",
        "forget": "delete_memory",
        "erase": "delete_memory_store",
    }
    for name in operations:
        attributes = ours[f"langmem_graph.{name}"]
        assert attributes["gen_ai.memory.store.id"] == folder_name("ana")


def test_every_step_and_model_call_has_a_span(
    memory: Memory, spans: InMemorySpanExporter
) -> None:
    ana = memory.user("ana")
    ana.add(told(), session_id="s")
    ana.flush()
    ana.recall("What is my secret?", mode="reason")
    ana.ground(Send, "Send my secret.")
    ana.search_records("secret")
    ana.forget(message="m1")
    steps = names(spans)
    assert steps >= {
        "add",
        "flush",
        "recall",
        "ground",
        "search_records",
        "forget",
        "model",
    }
    assert steps >= {"claim", "extract", "compare", "verify", "commit", "link"}
    assert steps >= {
        "route",
        "plan",
        "retrieve",
        "unify",
        "refine",
        "counterfactual",
        "context",
    }
    assert steps >= {
        "select_tool",
        "retrieve_slots",
        "fill",
        "verify",
        "decide",
        "topics",
    }
    recorded = spans.get_finished_spans()
    assert_no_text(recorded)
    (added,) = (one for one in recorded if one.name == "langmem_graph.add")
    assert added.attributes is not None
    assert added.attributes["langmem_graph.stored"] == 5
    assert added.attributes["langmem_graph.user"] == folder_name("ana")
    (extracted,) = (one for one in recorded if one.name == "langmem_graph.extract")
    assert (extracted.attributes or {})["langmem_graph.candidates"] == 5
    calls = [one for one in recorded if one.name == "langmem_graph.model"]
    asked = {str((one.attributes or {})["langmem_graph.answer"]) for one in calls}
    assert asked >= {"Extraction", "TopicRound", "GoalPlan", "ToolFill"}
    assert all(
        (one.attributes or {})["langmem_graph.input_tokens"] == 10 for one in calls
    )


@pytest.mark.parametrize("way", ["sync", "async", "graph", "agraph"])
def test_spans_reach_through_the_memorys_own_loop(
    memory: Memory, spans: InMemorySpanExporter, way: str
) -> None:
    """One trace: from the application's span to the calls of the memory's model."""
    memory.user("ana").add(told(), session_id="s")
    spans.clear()
    tracer = tracing._tracer()
    graph = create_recall_graph(memory)
    with tracer.start_as_current_span("langmem_graph.application") as outer:
        if way == "sync":
            memory.user("ana").recall("What is my secret?", mode="reason")
        elif way == "async":
            asyncio.run(memory.user("ana").arecall("What is my secret?", mode="reason"))
        elif way == "graph":
            graph.invoke(ASKED, config_of("ana"))
        else:
            asyncio.run(graph.ainvoke(ASKED, config_of("ana")))
    recorded = spans.get_finished_spans()
    own = outer.get_span_context().trace_id
    assert {one.context.trace_id for one in recorded} == {own}
    parents = {one.context.span_id: one.name for one in recorded}
    above = {
        parents[one.parent.span_id] for one in recorded if one.name.endswith(".model")
    }
    assert above <= {
        f"langmem_graph.{s}" for s in ("plan", "unify", "refine", "counterfactual")
    }


def test_an_error_is_a_kind_and_not_a_text(
    memory: Memory, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(LangMemGraphError):
        memory.user("ana").search_conversation(CANARY, k=-1)
    (failed,) = spans.get_finished_spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert failed.status.description == "InvalidInputError"
    assert_no_text((failed,))


def test_without_opentelemetry_or_a_provider_nothing_happens(tmp_path: Path) -> None:
    code = (
        "import sys\n{block}\n"
        "from langmem_graph import tracing\n"
        "assert tracing.current() is None or {there}\n"
        "with tracing.span('add', 'ana', n=1) as noting:\n"
        "    noting.note_sizes({{'a': [1]}})\n"
        "    assert noting._span is None\n"
        "tracing.resume(tracing.current())\n"
    )
    for block, there in (("sys.modules['opentelemetry'] = None", False), ("", True)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(block=block, there=there)],
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()


# --- LangSmith ---


class Runs(BaseCallbackHandler):
    """Notes name, tags and metadata of every run, as LangSmith's tracer gets them."""

    seen: ClassVar[list[tuple[str, str, list[str], dict[str, Any]]]] = []

    def on_chain_start(self, serialized: Any, inputs: Any, **run: Any) -> None:
        self.seen.append(
            ("chain", run.get("name") or "", run["tags"] or [], run["metadata"] or {})
        )

    def on_chat_model_start(self, serialized: Any, messages: Any, **run: Any) -> None:
        self.seen.append(
            ("model", run.get("name") or "", run["tags"] or [], run["metadata"] or {})
        )


_HANDLER: ContextVar[Runs | None] = ContextVar("runs", default=None)
register_configure_hook(
    _HANDLER, inheritable=True, handle_class=Runs, env_var="TEST_RUNS"
)


def test_model_calls_and_inner_graphs_are_named_and_tagged(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_RUNS", "true")
    monkeypatch.setattr(Runs, "seen", [])
    ana = memory.user("ana")
    ana.add(told(), session_id="s")
    ana.flush()
    ana.recall("What is my secret?", mode="reason")
    ana.ground(Send, "Send my secret.")
    create_recall_graph(memory).invoke(ASKED, config_of("ana"))
    own = [run for run in Runs.seen if run[1].startswith("langmem_graph.")]
    graphs = {name for _, name, _, about in own if about.get("langmem_graph_user")}
    assert graphs >= {
        "langmem_graph.write",
        "langmem_graph.recall",
        "langmem_graph.ground",
    }
    assert {name for _, name, _, _ in own} >= {
        "langmem_graph.Extraction",
        "langmem_graph.GoalPlan",
    }
    calls = [run for run in Runs.seen if run[0] == "model"]
    assert calls
    assert all("langmem_graph" in tags for _, _, tags, _ in calls)
    users = {about.get("langmem_graph_user") for _, _, _, about in own} - {None}
    assert users == {folder_name("ana")}


async def test_answers_to_memory_are_no_messages_of_the_applications_stream(
    memory: Memory,
) -> None:
    memory.user("ana").add(told(), session_id="s")

    async def chat(state: MemoryState) -> dict[str, Any]:
        model = ScriptedChatModel(script=["hello"])
        return {"messages": [await model.ainvoke(with_memory(state))]}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_graph(memory))
    builder.add_node("chat", chat)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    graph = builder.compile()
    parts = graph.astream(
        ASKED, config_of("ana"), stream_mode="messages", subgraphs=True
    )
    streamed = [str(part[0].content).strip() async for _, part in parts]
    assert [text for text in streamed if text] == ["hello"]


# --- logs ---


class TellTale(TroubledEmbeddings):
    """Repeats what it was given in its errors, as some servers do."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        if self.down:
            raise RuntimeError(f"cannot embed {texts}")
        return super().embed_documents(texts)


class TalkativeModel(ScriptedChatModel):
    """Now and then fails with an error that quotes the prompt."""

    down: bool = False

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        if self.down:
            raise ValueError(f"bad request: {messages}")
        return super()._generate(messages, *args, **options)


def use_everything(memory: Memory, store: ChromaStore, question: str) -> None:
    """Every surface once; what fails is told to the caller and not to this test."""
    config = config_of("ana")

    def chat(state: MemoryState) -> dict[str, Any]:
        return {"messages": [steady_model().invoke(with_memory(state))]}

    builder = StateGraph(MemoryState)
    builder.add_node("recall", create_recall_node(memory, mode="reason"))
    builder.add_node("chat", chat)
    builder.add_node("write", create_write_node(memory, extraction="inline"))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "chat")
    builder.add_edge("chat", "write")
    from langchain.agents import create_agent

    agent = create_agent(
        steady_model(), middleware=[MemoryMiddleware(memory, ground_tools=[Send])]
    )
    ana = memory.user("ana")
    tools = {tool.name: tool for tool in create_memory_tools(memory, user_id="ana")}

    def broken(query: str, k: int) -> list[Any]:
        return [{"text": "", "note": question}, 7]

    ways: list[Any] = [
        lambda: ana.add(told(), session_id="s"),
        lambda: ana.add(
            [{"role": "user", "content": [question]}, question], session_id="s"
        ),
        ana.flush,
        lambda: ana.recall(question, mode="reason", on_event=lambda event: 1 / 0),
        lambda: ana.search_conversation(question, k=-1),
        lambda: ana.remember(question),
        lambda: ana.add_records([{"text": question, "source_message_ids": [question]}]),
        lambda: ana.ground(Send, question),
        lambda: builder.compile().invoke({"messages": [("user", question)]}, config),
        lambda: agent.invoke({"messages": [("user", question)]}, config),
        lambda: tools["search_conversation"].invoke({"query": question}),
        lambda: tools["read_file"].invoke({"name": question}),
        lambda: create_goal_graph(broken, model=steady_model()).invoke(
            {"query": question}
        ),
        lambda: store.put(("users", "ana"), "k", {"text": question}),
        lambda: store.search(("users", "ana"), query=question),
        lambda: ana.read_file(question),
        lambda: ana.forget(message="m0"),
        lambda: ana.drain(5),
    ]
    for way in ways:
        try:
            way()
        except (LangMemGraphError, RuntimeError, ValueError):
            continue


def test_no_log_above_debug_quotes_a_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    embedder, model = (
        TellTale(),
        TalkativeModel(script=echo, answers=ANSWERS, record=False),
    )
    memory = Memory(tmp_path / "m", model=model, embeddings=embedder, settings=QUICK)
    with memory, ChromaStore(tmp_path / "m", embeddings=embedder) as store:
        for down in (False, True, False):
            embedder.down = model.down = down
            use_everything(memory, store, f"Send my secret {CANARY}")
        with memory._services.room("ana") as room:
            room.index.close()
        use_everything(memory, store, f"And my other secret {CANARY}")
        embedder.down = model.down = True
        use_everything(memory, store, f"And my last secret {CANARY}")
    assert "RuntimeError" in caplog.text  # the embedder's failure was told
    own = {
        record.name
        for record in caplog.records
        if record.name.startswith("langmem_graph")
    }
    assert len(own) > 5, own
    told_on = [
        r
        for r in caplog.records
        if CANARY in r.getMessage() or CANARY in str(r.exc_text)
    ]
    assert not told_on, [(r.name, r.getMessage()[:300]) for r in told_on]


# --- gauges ---


def test_gauges_tell_what_is_due(tmp_path: Path, troubled: TroubledEmbeddings) -> None:
    tracing._gauges()
    with Memory(tmp_path, embeddings=troubled) as memory:
        troubled.down = True
        memory.user("ana").add([said("one"), said("two")], session_id="s")
        due = [one for one in tracing._summaries() if one.user_id == "ana"]
        assert [one.to_embed for one in due] == [2]
    assert [one for one in tracing._summaries() if one.user_id == "ana"] == []


_METERED = """
import sys
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from langmem_graph import Memory

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
memories = [Memory(f"{sys.argv[1]}/{name}", embeddings="hash") for name in "ab"]
for memory in memories:
    memory.user("ana").add([("user", "I like figs.")], session_id="s")
scope = reader.get_metrics_data().resource_metrics[0].scope_metrics[0]
for metric in scope.metrics:
    print(metric.name, *(point.value >= 2 for point in metric.data.data_points))
"""


def test_an_application_with_a_meter_reads_them(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _METERED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        "langmem_graph.due True",
        "langmem_graph.oldest_due False",
    ]
