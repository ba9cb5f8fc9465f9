"""MemoryMiddleware in create_agent, under invoke, ainvoke, stream and astream."""

from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
)
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from langmem_graph.errors import ClosedMemoryError, InvalidInputError, MissingUserError
from langmem_graph.graphs.conversation_messages import place, was_said
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.conftest import said
from tests.support.graphs import WAYS, config, run, texts


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"4 degrees in {city}"


class weather_call(BaseModel):  # noqa: N801
    city: str


weather_call.__name__ = "weather"


def agent(
    memory: Memory, model: Any, tools: Any = (), before: Any = (), **options: Any
) -> Any:
    return create_agent(
        model,
        tools=list(tools),
        middleware=[*before, MemoryMiddleware(memory, **options)],
        checkpointer=InMemorySaver(),
    )


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_with_a_tool_call(memory: Memory, way: str) -> None:
    memory.user("ana").add(said("I moved to Oslo.", id="m1"), session_id="old")
    model = ScriptedChatModel(
        script=[weather_call(city="Oslo"), "Four degrees in Oslo."]
    )
    end = run(
        agent(memory, model, [weather]),
        way,
        {"messages": "Weather at home in Oslo?"},
        config(),
    )

    assert texts(end["messages"]) == [
        "Weather at home in Oslo?", "", "4 degrees in Oslo", "Four degrees in Oslo.",
    ]  # fmt: skip
    assert not end.get("memory_context")
    first, second = model.requests
    assert "I moved to Oslo." in str(first[0].content)
    assert [m.type for m in first] == ["human", "human"]
    assert [m.type for m in second] == ["human", "human", "ai", "tool"]
    assert second[0].content == first[0].content
    kept = memory.user("ana").export()
    assert [m["role"] for m in kept] == [
        "user",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert sum("I moved to Oslo." in m["content"] for m in kept) == 1


@pytest.mark.parametrize("way", WAYS)
def test_recalled_text_is_in_no_checkpoint(memory: Memory, way: str) -> None:
    memory.user("ana").add(said("canary-8812 is my plate", id="m1"), session_id="old")
    model = ScriptedChatModel(script=["yes"])
    bot = agent(memory, model, report=True)
    end = run(bot, way, {"messages": "plate canary?"}, config())
    assert "canary-8812" in str(model.requests[0])
    assert "canary-8812" not in str(end)
    modes = ["values", "updates", "tasks", "debug", "checkpoints", "messages", "custom"]
    streamed = list(
        bot.stream({"messages": "canary plate"}, config(), stream_mode=modes)
    )
    assert len(model.requests) == 2
    assert "canary-8812" in str(model.requests[1])
    assert "canary-8812" not in str(streamed)
    assert "canary-8812" not in str(list(bot.get_state_history(config())))
    assert end["memory_report"]["recall"]["message_ids"] == ["m1"]
    assert end["memory_report"]["write"]["stored"] == 2


async def test_nothing_blocks_the_loop(memory: Memory) -> None:
    bot = agent(memory, ScriptedChatModel(), create_memory_tools(memory))
    await bot.ainvoke({"messages": "warm up"}, config())
    with blockbuster_ctx():
        await bot.ainvoke({"messages": "I like tea"}, config())
        parts = [
            p
            async for p in bot.astream(
                {"messages": "t?"}, config(), stream_mode="custom"
            )
        ]
    assert [p["event"] for p in parts] == [
        "memory_recall",
        "memory_write",
        "memory_write",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_a_long_tool_loop_recalls_once(memory: Memory, way: str) -> None:
    memory.user("ana").add(said("I moved to Oslo."), session_id="old")
    calls = [weather_call(city=f"Oslo {n}") for n in range(6)]
    model = ScriptedChatModel(script=[*calls, "Cold everywhere."])
    events: list[str] = []
    bot = agent(memory, model, [weather])
    stream = bot.stream({"messages": "Oslo weather?"}, config(), stream_mode="custom")
    events = [part["event"] for part in stream]
    assert events.count("memory_recall") == 1
    assert {str(request[0].content) for request in model.requests} == {
        str(model.requests[0][0].content)
    }
    assert len(memory.user("ana").export()) == 1 + 1 + 12 + 1


@pytest.mark.parametrize("way", WAYS)
def test_calls_and_results_are_kept_when_the_model_fails_in_mid_loop(
    memory: Memory, way: str
) -> None:
    model = ScriptedChatModel(script=[weather_call(city="Oslo"), RuntimeError("down")])
    bot = create_agent(model, tools=[weather], middleware=[MemoryMiddleware(memory)])
    with pytest.raises(RuntimeError, match="down"):
        run(bot, way, {"messages": "Oslo weather?"}, config())
    assert [m["role"] for m in memory.user("ana").export()] == [
        "user",
        "assistant",
        "tool",
    ]


@pytest.mark.parametrize("way", WAYS)
def test_summarising_loses_no_message_and_the_summary_is_nobodys_words(
    memory: Memory, way: str
) -> None:
    def summariser(messages: list[BaseMessage]) -> str:
        return "The user hates jazz."

    shorten = SummarizationMiddleware(
        ScriptedChatModel(script=[summariser]),
        trigger=("messages", 6),
        keep=("messages", 2),
    )
    calls = [weather_call(city=f"city {n}") for n in range(6)]
    model = ScriptedChatModel(script=[*calls, "Done.", "Still here."])
    bot = agent(memory, model, [weather], before=[shorten])
    run(bot, way, {"messages": "Weather in six cities?"}, config())
    run(bot, way, {"messages": "Are you there?"}, config())
    kept = [m["content"] for m in memory.user("ana").export()]
    assert len(kept) == 1 + 12 + 1 + 2
    assert not any("jazz" in text for text in kept)
    assert any("jazz" in str(m.content) for m in model.requests[-1])


def test_summarising_after_it_loses_nothing_of_a_long_conversation(
    memory: Memory,
) -> None:
    summariser = ScriptedChatModel(script=["They talked."])
    shorten = SummarizationMiddleware(
        summariser, trigger=("messages", 6), keep=("messages", 2)
    )
    model = ScriptedChatModel(script=["Done."])
    bot: Any = create_agent(model, middleware=[MemoryMiddleware(memory), shorten])
    talk = [(role, f"{role} {n}") for n in range(5) for role in ("user", "assistant")]
    bot.invoke({"messages": [*talk, ("user", "And now?")]}, config())
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == [*(text for _, text in talk), "And now?", "Done."]


@pytest.mark.parametrize("way", WAYS)
def test_after_an_interrupt_memory_is_recalled_again(memory: Memory, way: str) -> None:
    memory.user("ana").add(said("I moved to Oslo."), session_id="old")
    model = ScriptedChatModel(script=[weather_call(city="Oslo"), "Four degrees."])
    ask = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
    bot = agent(memory, model, [weather], [ask])
    run(bot, way, {"messages": "Weather in Oslo?"}, config())
    end = run(bot, way, Command(resume={"decisions": [{"type": "approve"}]}), config())
    assert end["messages"][-1].content == "Four degrees."
    assert "I moved to Oslo." in str(model.requests[-1][0].content)
    assert len(memory.user("ana").export()) == 5


@pytest.mark.parametrize("way", WAYS)
def test_what_is_deleted_during_an_interrupt_is_not_shown_after_it(
    memory: Memory, way: str
) -> None:
    ana = memory.user("ana")
    ana.add(
        [said("I moved to Oslo.", id="m1"), said("Oslo is cold.")], session_id="old"
    )
    model = ScriptedChatModel(script=[weather_call(city="Oslo"), "Four degrees."])
    ask = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
    bot = agent(memory, model, [weather], [ask])
    run(bot, way, {"messages": "Weather in Oslo?"}, config())
    assert "I moved to Oslo." in str(model.requests[0])
    ana.forget(message="m1")
    run(bot, way, Command(resume={"decisions": [{"type": "approve"}]}), config())
    assert "I moved to Oslo." not in str(model.requests[1])
    assert "Oslo is cold." in str(model.requests[1])


@pytest.mark.parametrize("way", WAYS)
def test_a_run_resumed_at_the_model_by_another_process_recalls(
    memory: Memory, way: str
) -> None:
    memory.user("ana").add(said("I moved to Oslo."), session_id="old")
    model = ScriptedChatModel(script=[RuntimeError("down"), "Oslo."])
    bot = agent(memory, model)
    with pytest.raises(RuntimeError, match="down"):
        run(bot, way, {"messages": "Did I move to Oslo?"}, config())
    other = create_agent(
        model, middleware=[MemoryMiddleware(memory)], checkpointer=bot.checkpointer
    )
    run(other, way, None, config())
    assert "I moved to Oslo." in str(model.requests[1])


@pytest.mark.parametrize("way", WAYS)
def test_what_the_user_said_is_kept_when_the_model_fails(
    memory: Memory, way: str
) -> None:
    bot = agent(memory, ScriptedChatModel(script=[RuntimeError("down"), "up"]))
    with pytest.raises(RuntimeError, match="down"):
        run(bot, way, {"messages": "My code is blue."}, config())
    assert [m["content"] for m in memory.user("ana").export()] == ["My code is blue."]
    run(bot, way, {"messages": "Hello?"}, config())
    assert [m["content"] for m in memory.user("ana").export()] == [
        "My code is blue.", "Hello?", "up",
    ]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_failing_memory(memory: Memory, way: str) -> None:
    open_bot = agent(memory, ScriptedChatModel(script=["fine"]), report=True)
    closed_bot = agent(memory, ScriptedChatModel(), fail_closed=True)
    memory.close()
    end = run(open_bot, way, {"messages": "hi"}, config())
    assert end["messages"][-1].content == "fine"
    assert {r["status"] for r in end["memory_report"].values()} == {"failed"}
    with pytest.raises(ClosedMemoryError):
        run(closed_bot, way, {"messages": "hi"}, config())


class LongTermMemory(MemoryMiddleware):
    """Another name, for a second memory of one agent."""


@pytest.mark.parametrize("kind", [MemoryMiddleware, LongTermMemory])
def test_an_agent_gets_only_the_hooks_that_its_options_need(
    memory: Memory, kind: type[MemoryMiddleware]
) -> None:
    """Each takes a step of the recursion limit; with one for tools LangChain lets calls
    of any name through, and others' `jump_to`.
    """

    def nodes(middleware: Any, *tools: Any) -> set[str]:
        model = ScriptedChatModel(script=["Hello."])
        return set(create_agent(model, [*tools], middleware=[middleware]).nodes)

    plain = kind(memory, user_id="ana")
    name = kind.__name__
    assert (plain.name, type(plain).__doc__) == (name, kind.__doc__)
    assert isinstance(plain, kind)
    steps = {"__start__", "model", f"{name}.before_model", f"{name}.after_agent"}
    assert nodes(plain) == steps
    assert nodes(plain, weather) == {*steps, "tools"}
    reporting = kind(memory, user_id="ana", report=True)
    assert nodes(reporting) == {*steps, f"{name}.before_agent"}


def test_a_call_of_an_unknown_tool_is_an_error_as_without_memory(
    memory: Memory,
) -> None:
    call = AIMessage("", tool_calls=[{"name": "nothing", "args": {}, "id": "c"}])
    model = ScriptedChatModel(script=[call, "Done."])
    app = agent(memory, model, [weather], user_id="ana")
    done = app.invoke({"messages": "Hi"}, config())
    assert "nothing is not a valid tool" in done["messages"][2].text


class Own(MemoryMiddleware):
    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        return ToolMessage("never run", tool_call_id=request.tool_call["id"])


def test_a_hook_of_a_subclass_stays(memory: Memory) -> None:
    model = ScriptedChatModel(script=[weather_call(city="Oslo"), "Done."])
    app = create_agent(model, [weather], middleware=[Own(memory, user_id="ana")])
    assert app.invoke({"messages": "Hi"})["messages"][2].text == "never run"


class Reporting(MemoryMiddleware):
    """With options of its own."""

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory, user_id="ana", ground_tools=[weather], report=True)


def test_a_subclass_may_choose_the_options(tmp_path: Path) -> None:
    model = ScriptedChatModel(script=["Hello."])
    with Memory(tmp_path, model=model, embeddings="hash") as memory:
        app = create_agent(model, [], middleware=[Reporting(memory)])
    assert {"Reporting.before_agent", "tools"} <= set(app.nodes)


@pytest.mark.parametrize("tools", [5, "weather", {"name": "weather"}])
def test_tools_to_ground_are_a_list(memory: Memory, tools: Any) -> None:
    with pytest.raises(InvalidInputError, match="ground_tools must be a list"):
        MemoryMiddleware(memory, ground_tools=tools)


def test_a_run_after_one_that_failed_recalls_anew(memory: Memory) -> None:
    """Also for the same message: what was stored meanwhile is found."""
    model = ScriptedChatModel(script=[ConnectionError("down"), "Oslo."])
    app = create_agent(model, middleware=[MemoryMiddleware(memory, user_id="ana")])
    question = {"messages": [HumanMessage("Where do I live now?", id="q")]}
    with pytest.raises(ConnectionError):
        app.invoke(question)
    memory.user("ana").add(said("I live in Oslo now.", id="m"), session_id="other")
    app.invoke(question)
    assert "I live in Oslo now." in str(model.requests[-1])


@pytest.mark.parametrize("way", WAYS)
def test_no_user_id(memory: Memory, way: str) -> None:
    with pytest.raises(MissingUserError, match="configurable"):
        run(
            agent(memory, ScriptedChatModel()),
            way,
            {"messages": "hi"},
            config(user=None),
        )


@pytest.mark.parametrize("way", WAYS)
def test_redacting_middleware_before_it_redacts_what_is_kept(
    memory: Memory, way: str
) -> None:
    model = ScriptedChatModel(script=["noted"])
    redact = PIIMiddleware("email", strategy="redact")
    bot = create_agent(model, middleware=[redact, MemoryMiddleware(memory)])
    run(bot, way, {"messages": "I am ana@example.org"}, config())
    kept = [m["content"] for m in memory.user("ana").export()]
    assert kept == ["I am [REDACTED_EMAIL]", "noted"]


def test_the_report_of_one_turn_is_not_the_last_ones(memory: Memory) -> None:
    bot = agent(memory, ScriptedChatModel(), report=True)
    for _ in range(3):
        end = bot.invoke({"messages": "hi"}, config())
    assert end["memory_report"]["write"]["stored"] == 2


@pytest.mark.parametrize("way", WAYS)
def test_the_report_keeps_the_recall_when_the_question_is_summarised_away(
    memory: Memory, way: str
) -> None:
    memory.user("ana").add(said("I moved to Oslo."), session_id="old")
    summary = ScriptedChatModel(script=["They spoke of Oslo."])
    before = [
        SummarizationMiddleware(summary, trigger=("messages", 4), keep=("messages", 2)),
        HumanInTheLoopMiddleware(interrupt_on={"weather": True}),
    ]
    model = ScriptedChatModel(
        script=["Hi.", weather_call(city="Oslo"), "Four degrees.", "Hm."]
    )
    bot = agent(memory, model, [weather], before, report=True)
    run(bot, way, {"messages": "Hello there"}, config())
    run(bot, way, {"messages": "Weather in Oslo?"}, config())
    end = run(bot, way, Command(resume={"decisions": [{"type": "approve"}]}), config())
    assert end["memory_report"]["recall"]["status"] == "ok"
    assert end["memory_report"]["write"]["stored"] == 4
    silent = HumanMessage([{"type": "image", "url": "https://example.org/cat.png"}])
    end = run(bot, way, {"messages": [silent]}, config())
    assert end["memory_report"]["recall"]["status"] == "skipped", (
        "not that of the turn before"
    )


# --- recalled text and tool calls ----------------------------------------------------------------


def _blocks() -> st.SearchStrategy[list[BaseMessage]]:
    """Pieces of conversations: a question, an answer, calls with their results, mixed up or not."""
    human = st.builds(lambda: [HumanMessage("q")])
    answer = st.builds(lambda: [AIMessage("a")])

    @st.composite
    def calls(draw: st.DrawFn) -> list[BaseMessage]:
        ids = [
            f"c{n}"
            for n in draw(
                st.lists(st.integers(0, 999), min_size=1, unique=True, max_size=3)
            )
        ]
        asks = AIMessage(
            "", tool_calls=[{"name": "f", "args": {}, "id": i} for i in ids]
        )
        results: list[BaseMessage] = [ToolMessage("r", tool_call_id=i) for i in ids]
        if draw(st.booleans()):
            results.insert(draw(st.integers(0, len(results))), HumanMessage("wait!"))
        return [asks, *results]

    return st.one_of(human, answer, calls())


@given(
    st.lists(_blocks(), max_size=8).map(
        lambda blocks: [m for block in blocks for m in block]
    )
)
def test_recalled_text_never_parts_a_call_from_its_result(
    messages: list[BaseMessage],
) -> None:
    placed = place(messages, "<memory>x</memory>")
    assert [m for m in placed if was_said(m)] == messages
    at = [n for n, m in enumerate(placed) if not was_said(m)]
    assert len(at) == any(isinstance(m, HumanMessage) for m in messages)
    for position in at:
        assert any(isinstance(m, HumanMessage) for m in placed[position + 1 :])
        asked = {
            c["id"]
            for m in placed[:position]
            if isinstance(m, AIMessage)
            for c in m.tool_calls
        }
        answered_before = {
            m.tool_call_id for m in placed[:position] if isinstance(m, ToolMessage)
        }
        answered_after = {
            m.tool_call_id for m in placed[position:] if isinstance(m, ToolMessage)
        }
        reasked = {
            c["id"]
            for m in placed[position:]
            if isinstance(m, AIMessage)
            for c in m.tool_calls
        }
        assert not (asked - answered_before) & (answered_after - reasked)
