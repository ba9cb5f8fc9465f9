"""`create_write_graph`: its steps can be seen, its state stays private, and runs do not collide."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel, TypeAdapter

from langmem_graph.graphs.write_graph import create_write_graph
from langmem_graph.llm.structured_calls import RunUsage, model_runner
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, ReasoningSettings, Settings
from langmem_graph.testing import ScriptedChatModel
from tests.support.models import AnswersBySchema
from tests.support.settings import nested
from tests.support.topic_tracks import PROFILE, gather
from tests.support.writing import echo, turn

STEPS = ["claim", "extract", "compare", "verify", "commit", "link", "schedule"]
NOT_DUE = ["claim", "plan_round"]
ROUND = [*NOT_DUE, "causal", "topics", "profile"]
CONFIG: dict[str, Any] = {"configurable": {"user_id": "ana", "thread_id": "t"}}
LEAST: Any = {"recursion_limit": 4}
BOAT = {"messages": [("user", "I own a boat."), ("assistant", "Nice.")]}
BOATS = {
    "messages": [
        ("user", f"I own {thing}.") for thing in ("a boat", "a raft", "a kayak")
    ]
}


def reading(**answers: Any) -> AnswersBySchema:
    return AnswersBySchema(
        **{"Extraction": echo, "TopicRound": gather, "ProfileText": PROFILE, **answers}
    )


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Any]:
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        settings = {
            "extraction__debounce_seconds": 0.02,
            "storage__closing_seconds": 5,
            **settings,
        }
        opened.append(
            Memory(
                tmp_path / "m",
                model=model,
                embeddings="hash",
                settings=nested(**settings),
            )
        )
        return opened[-1]

    yield make
    for memory in opened:
        memory.close()


# --- what can be seen, and what cannot -------------------------------------------------------


def test_pictures_show_every_step(open_memory: Any) -> None:
    graph = create_write_graph(open_memory(reading()))
    steps = [*STEPS, *ROUND, "reconcile", "give_back"]
    inside = [f"extraction:{step}" for step in steps]
    assert {"append", "report", *inside} <= set(graph.get_graph(xray=True).nodes)
    app = StateGraph(MessagesState)
    app.add_node("memory", graph)
    app.add_edge(START, "memory")
    nodes = set(app.compile().get_graph(xray=True).nodes)
    assert {f"memory:{name}" for name in inside} <= nodes


def steps_in(parts: list[Any]) -> list[str]:
    """The steps inside `extraction`, in order; all other parts are outside of it."""
    inside = [
        part for part in parts if any(one.startswith("extraction:") for one in part[0])
    ]
    assert [
        name
        for space, update in parts
        if (space, update) not in inside
        for name in update
    ] == ["append", *["extraction"] * 2, "report"]
    return [name for _, update in inside for name in update]


async def test_a_stream_shows_every_step_sync_and_async(open_memory: Any) -> None:
    graph = create_write_graph(open_memory(reading()))
    seen = [part async for part in graph.astream(BOATS, CONFIG, subgraphs=True)]
    assert steps_in(seen) == [*STEPS, *ROUND]
    car = {"messages": [("user", "And a car.")]}
    seen = await asyncio.to_thread(
        lambda: list(graph.stream(car, CONFIG, subgraphs=True))
    )
    assert steps_in(seen) == [*STEPS, *NOT_DUE]


def as_json(value: Any) -> Any:
    """As a server would send it: what is typed dumps itself."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, RunUsage):
        return TypeAdapter(RunUsage).dump_python(value, mode="json")
    return {one.name: getattr(value, one.name) for one in fields(value)}


def test_all_that_the_steps_hand_on_dumps_to_json(open_memory: Any) -> None:
    graph = create_write_graph(open_memory(reading()))
    parts = list(graph.stream(BOATS, CONFIG, subgraphs=True, stream_mode="values"))
    inside = json.loads(
        json.dumps([state for space, state in parts if space], default=as_json)
    )
    kept = {name: value for state in inside for name, value in state.items() if value}
    assert kept["candidates"][0]["source_ids"]
    assert kept["counts"]["topics"] == 1
    assert kept["usage"]["calls"] == 3  # causes, topics and the profile
    assert set(kept["batch"]) == {"items", "turns"}


def saved_by(saver: InMemorySaver) -> str:
    return repr((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))


@pytest.mark.parametrize("way", ["own", "parent"])
async def test_a_checkpointer_saves_no_memory(open_memory: Any, way: str) -> None:
    """The record's words are not the message's."""
    row = {
        "text": "The user keeps a zebrafish.",
        "sources": ["m1"],
        "attribute": "okapi",
    }
    memory = open_memory(reading(Extraction={"memories": [row]}))
    graph, saver = create_write_graph(memory), InMemorySaver()
    if way == "own":  # as LangGraph Server gives a graph its checkpointer
        app = graph.copy({"checkpointer": saver})
    else:
        builder = StateGraph(MessagesState)
        builder.add_node("memory", graph)
        builder.add_edge(START, "memory")
        app = builder.compile(checkpointer=saver)
    await app.ainvoke(BOAT, CONFIG)
    said = {"messages": [("user", "And a canoe.")]}
    list(
        await asyncio.to_thread(lambda: list(app.stream(said, CONFIG, subgraphs=True)))
    )
    assert any(
        "zebrafish" in hit.text for hit in memory.user("ana").search_records("pet")
    )
    saved = saved_by(saver)
    assert "I own a boat." in saved
    assert not [word for word in ("zebrafish", "okapi", "Owns boats") if word in saved]
    assert app.get_state(CONFIG, subgraphs=True).values["messages"]


# --- one report, whoever runs it -------------------------------------------------------------


async def test_both_ways_report_the_same_as_flush(open_memory: Any) -> None:
    memory = open_memory(reading())
    graph = create_write_graph(memory)
    reports = []
    for user in ("ana", "bob"):
        run = graph.ainvoke if user == "ana" else graph.invoke
        config = {"configurable": {"user_id": user}}
        done = run(BOATS, config)
        report = (await done if asyncio.iscoroutine(done) else done)["memory_report"]
        assert set(report) == {"write", "read"}
        reports.append(report["read"])
    eve = memory.user("eve")
    said = [{"role": role, "content": text} for role, text in BOATS["messages"]]
    await eve.aadd(said, session_id="s")
    reports.append((await eve.aflush()).model_dump(mode="json"))
    for report in reports:
        assert report.pop("milliseconds") > 0
        report["input_tokens"] = 0  # the aliases of three users are not equally long
    assert reports[0] == reports[1] == reports[2]
    assert (reports[0]["stored"], reports[0]["topics"], reports[0]["llm_calls"]) == (
        3,
        1,
        4,
    )


def test_the_output_has_nothing_private(open_memory: Any) -> None:
    done = create_write_graph(open_memory(reading())).invoke(BOAT, CONFIG)
    assert set(done) == {"messages", "memory_report"}


@pytest.mark.parametrize(("limit", "read"), [(4, 3), (5, 6), (6, 8), (50, 8)])
def test_a_small_recursion_limit_ends_with_a_partial_report(
    open_memory: Any, limit: int, read: int
) -> None:
    memory = open_memory(reading())
    ana = memory.user("ana")
    for number in range(2):  # each fills a batch
        pasted = {"role": "user", "content": "word " * 2_000}
        long = turn("I own a boat. " + "word " * 2_000, "x" * 8_000, number)
        ana.add([pasted, *long], session_id=f"s{number}")
    graph = create_write_graph(memory)
    report = graph.invoke(BOAT, {**CONFIG, "recursion_limit": limit})["memory_report"][
        "read"
    ]
    assert (report["read"], report["pending"]) == (read, 8 - read)
    assert report["status"] == ("ok" if read == 8 else "partial")
    rest = graph.invoke(BOAT, CONFIG)["memory_report"]["read"]
    assert (rest["read"], rest["pending"]) == (10 - read, 0)  # and what was just said


def test_without_force_a_full_batch_is_waited_for(open_memory: Any) -> None:
    graph = create_write_graph(open_memory(reading()), force=False)
    for number in range(1, 6):
        said = {"messages": [("user", f"I own boat {number}."), ("assistant", "Nice.")]}
        report = graph.invoke(said, CONFIG)["memory_report"]["read"]
        read = 8 if number == 4 else 0  # four turns are a full batch
        assert (report["status"], report["read"]) == ("ok", read)
    assert report["pending"] == 2


# --- two runs at once ------------------------------------------------------------------------


def test_two_runs_read_each_message_once(open_memory: Any) -> None:
    """While the graph's model thinks, a flush reads what is not claimed, and leaves the rest."""
    questions: list[str] = []
    during: list[Any] = []

    def extract(question: str) -> Any:
        questions.append(question.rpartition("New messages:\n")[2])
        if len(questions) == 1:
            ana.add(turn("I own a car."), session_id="later")
            during.append(ana.flush())
        return echo(question)

    memory = open_memory(reading(Extraction=extract))
    ana = memory.user("ana")
    report = create_write_graph(memory).invoke(BOAT, CONFIG)["memory_report"]["read"]
    assert (report["read"], report["stored"], report["pending"]) == (2, 1, 0)
    (other,) = during
    assert (other.status, other.read, other.pending) == ("partial", 2, 2)
    assert sum("boat" in question for question in questions) == 1
    assert sum("own a car" in question for question in questions) == 1
    assert len(ana.export_records()) == 2


async def test_giving_one_run_up_leaves_the_others_claim(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(reading())
    ana, graph = memory.user("ana"), create_write_graph(memory)
    entered, leave, asked = asyncio.Event(), asyncio.Event(), list[str]()
    runner = memory._pipelines.extraction.deps.runner
    ask = runner.ask

    async def slowly(schema: Any, prompt: str, question: str, *rest: Any) -> Any:
        if (
            schema.__name__ == "Extraction"
            and "boat" in question.rpartition("New messages:")[2]
        ):
            asked.append(question)
            entered.set()
            await leave.wait()
        return await ask(schema, prompt, question, *rest)

    monkeypatch.setattr(runner, "ask", slowly)
    first = asyncio.create_task(graph.ainvoke(BOAT, CONFIG))
    await entered.wait()
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="broken"):
        patch.setattr("langmem_graph.extraction.reconcile_records.unseen", fail)
        await graph.ainvoke({"messages": [("user", "I own a car.")]}, config("other"))
    report = await ana.aflush()  # reads the car; the boat is still the first run's
    assert (report.read, report.pending) == (1, 2)
    leave.set()
    done = (await first)["memory_report"]["read"]
    assert (done["read"], done["pending"]) == (2, 0)
    assert len(asked) == 1


def config(thread: str) -> Any:
    return {"configurable": {"user_id": "ana", "thread_id": thread}}


def fail(*_: Any) -> Any:
    raise RuntimeError("broken")


@pytest.mark.parametrize("way", ["cancelled", "raises", "raises sync"])
async def test_a_run_that_ends_early_gives_its_claim_back(
    open_memory: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = open_memory(reading())
    graph = create_write_graph(memory)
    if way == "cancelled":
        monkeypatch.setattr(
            memory._pipelines.extraction.deps.runner,
            "ask",
            lambda *_: asyncio.sleep(60),
        )
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(graph.ainvoke(BOAT, CONFIG), 1)
    else:
        monkeypatch.setattr("langmem_graph.extraction.reconcile_records.unseen", fail)
        with pytest.raises(RuntimeError, match="broken"):
            if way == "raises":
                await graph.ainvoke(BOAT, CONFIG)
            else:
                graph.invoke(BOAT, CONFIG)
    monkeypatch.undo()
    report = await memory.user("ana").aflush()
    assert (report.read, report.stored, report.pending) == (2, 1, 0)


async def test_a_round_that_was_overtaken_leaves_its_records_due(
    open_memory: Any,
) -> None:
    """What neither run has gathered is gathered by the next round."""
    rounds: list[str] = []

    def slowly(question: str) -> Any:
        rounds.append(question)
        if len(rounds) == 1:
            for thing in ("a canoe", "a sail", "a rope"):
                ana.remember(f"I bought {thing}.")
            ana.flush()
            ana.remember("I rent a barge.")
        return gather(question)

    memory = open_memory(reading(TopicRound=slowly))
    ana = memory.user("ana")
    await asyncio.to_thread(create_write_graph(memory).invoke, BOATS, CONFIG)
    track = ana.read_file("topics/boats.md")
    assert len(rounds) == 2
    assert all(thing in track for thing in ("kayak", "canoe"))
    assert "barge" not in track
    for thing in ("a ferry", "a pier"):
        ana.remember(f"I saw {thing}.")
    await ana.aflush()
    assert "barge" in ana.read_file("topics/boats.md")


def test_an_asker_has_the_limits_of_its_purpose() -> None:
    settings = Settings(
        extraction=ExtractionSettings(max_calls=2),
        reasoning=ReasoningSettings(max_calls=5),
    )
    for purpose, calls in (("extraction", 2), ("recall", 5)):
        runner = model_runner(ScriptedChatModel(), settings, purpose)  # type: ignore[arg-type]
        assert not runner.is_spent(RunUsage(calls=calls - 1))
        assert runner.is_spent(RunUsage(calls=calls))
