"""The reader: a chat model walks memory, well or badly; a navigation always comes back."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call

from langmem_graph.errors import ClosedMemoryError, InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.navigation.actions import MAX_CALLS, Navigation
from langmem_graph.navigation.rollouts import arun_navigator, run_navigator
from langmem_graph.testing import ScriptedChatModel
from tests.support.navigation import ANSWER, OF_ANA, fill

QUESTION = "Which seat do I take?"
DONE = json.dumps(ANSWER)


@pytest.fixture
def known(memory: Memory) -> Memory:
    return fill(memory)


def call(
    tool: str = "search_conversation", call_id: Any = "c1", **arguments: Any
) -> Any:
    return {"name": tool, "args": arguments or {"query": "seat"}, "id": call_id}


def asking(*calls: Any, **fields: Any) -> AIMessage:
    return AIMessage(fields.pop("content", ""), tool_calls=list(calls), **fields)


def walk(
    memory: Memory, *script: Any, **options: Any
) -> tuple[Navigation, ScriptedChatModel]:
    model = ScriptedChatModel(script=list(script))
    return run_navigator(model, memory.user("ana"), QUESTION, **options), model


def test_a_model_walks_from_layer_to_layer_and_answers(known: Memory) -> None:
    script = [
        asking(call("read_file", name="index.md")),
        asking(call("search_records", query="seat", call_id="c2"), call(call_id="c3")),
        DONE,
    ]
    done, model = walk(known, *script)
    assert (done.answer, done.reason, done.well_formed) == (
        "An aisle seat.",
        "m1",
        True,
    )
    assert (done.finish, done.turns, done.problems) == ("answered", 2, [])
    assert [use.layer for use in done.tool_calls] == ["topics", "records", "messages"]
    assert [use.turn for use in done.tool_calls] == [1, 2, 2]
    assert {"m1", "r1"} <= done.shown <= OF_ANA
    assert (done.input_tokens, done.output_tokens, done.tokens_exact) == (30, 15, True)
    assert done.milliseconds > 0
    system, question, *rest = model.requests[-1]
    assert "4 turns" in str(system.content)
    assert question.content == QUESTION
    assert [message.type for message in rest] == ["ai", "tool", "ai", "tool", "tool"]
    assert [m.tool_call_id for m in rest if isinstance(m, ToolMessage)] == [
        "c1",
        "c2",
        "c3",
    ]
    assert "I always take an aisle seat." in str(rest[-1].content)
    json.dumps(done.model_dump(mode="json"))


async def test_the_twin_does_the_same_without_blocking(known: Memory) -> None:
    script = [asking(call()), DONE]
    with blockbuster_ctx():
        model = ScriptedChatModel(script=script)
        done = await arun_navigator(model, known.user("ana"), QUESTION)
    same, _ = walk(known, *script)
    unequal = {"milliseconds"}
    assert done.model_dump(exclude=unequal) == same.model_dump(exclude=unequal)
    assert signature(arun_navigator) == signature(run_navigator)


async def test_it_may_be_called_inside_a_loop(known: Memory) -> None:
    done, _ = walk(known, asking(call()), DONE)
    assert done.finish == "answered"


def test_the_model_is_offered_the_five_reading_tools(known: Memory) -> None:
    offered: list[Any] = []

    class Watching(ScriptedChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            offered.extend(tools)
            return super().bind_tools(tools, **options)

    run_navigator(Watching(script=[DONE]), known.user("ana"), QUESTION)
    assert [tool["function"]["name"] for tool in offered] == [
        *(
            "get_conversation",
            "get_records",
            "read_file",
            "search_conversation",
            "search_records",
        )
    ]


def test_endless_calls_end_with_the_budget(known: Memory) -> None:
    done, model = walk(known, asking(call()))
    assert (done.finish, done.turns, done.answer) == ("over_budget", 4, "")
    assert (len(done.tool_calls), len(model.requests)) == (4, 5)
    assert "last turn" in str(model.requests[-1][-1].content)
    assert "last turn" not in str(model.requests[-2][-1].content)
    done, model = walk(known, asking(call()), budget=1)
    assert (done.finish, len(model.requests)) == ("over_budget", 2)


def unparsed(**fields: Any) -> AIMessage:
    """A call that LangChain could not parse."""
    return AIMessage("", invalid_tool_calls=[invalid_tool_call(**fields)])


THOUGHTS = AIMessage([{"type": "thinking", "thinking": "hm"}])
CUT_OFF = unparsed(name="search_records", args='{"q', id="b", error="cut off")
NOTHING = unparsed(name=None, args=None, id=None, error=None)
Misbehaviour = dict[str, tuple[list[Any], str, str]]
MISBEHAVIOUR: Misbehaviour = {  # script, finish, what is noted
    "unknown tool": (
        [asking(call("drop_table"))],
        "over_budget",
        "no tool 'drop_table'",
    ),
    "unknown tool, then well": (
        [asking(call("drop_table")), DONE],
        "answered",
        "no tool",
    ),
    "strange name": ([asking(call("../x y")), DONE], "answered", "names no tool"),
    "wrong arguments": (
        [asking(call(text="x")), DONE],
        "answered",
        "do not fit: query",
    ),
    "empty": ([""], "no_answer", "empty"),
    "empty, then well": (["", DONE], "answered", "empty"),
    "only thoughts": ([THOUGHTS, DONE], "answered", "empty"),
    "error": (
        [RuntimeError("the server is gone")],
        "model_error",
        "RuntimeError: the server",
    ),
    "error later": ([asking(call()), TimeoutError("slow")], "model_error", "slow"),
    "broken json": ([CUT_OFF, DONE], "answered", "not JSON"),
    "no name, no arguments": ([NOTHING, DONE], "answered", "names no tool"),
    "no ids": ([asking(call(call_id=None), call(call_id=None)), DONE], "answered", ""),
    "the same ids": (
        [asking(call(call_id="c"), call(call_id="c")), DONE],
        "answered",
        "",
    ),
    "too many calls": (
        [asking(*[call(call_id=f"c{n}") for n in range(50)]), DONE],
        "answered",
        "",
    ),
    "lone surrogates": ([asking(call(query="seat \ud800")), "\udfff"], "answered", ""),
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_a_model_that_misbehaves(known: Memory, name: str) -> None:
    script, finish, problem = MISBEHAVIOUR[name]
    done, model = walk(known, *script)
    assert done.finish == finish
    assert problem in " ".join(done.problems)
    assert bool(problem) == bool(done.problems)
    done.model_dump_json().encode("utf-8")
    for request in model.requests:  # what providers insist on
        _check_protocol(request)


def _check_protocol(request: list[Any]) -> None:
    """Every call has an id of its own, well-formed arguments, and its answer right behind."""
    for place, message in enumerate(request):
        if not isinstance(message, AIMessage):
            continue
        assert not message.invalid_tool_calls
        assert message.content or message.tool_calls
        ids = [one["id"] for one in message.tool_calls]
        assert all(ids)
        assert len(set(ids)) == len(ids) <= MAX_CALLS
        assert all(isinstance(one["args"], dict) for one in message.tool_calls)
        behind = request[place + 1 : place + 1 + len(ids)]
        assert [one.tool_call_id for one in behind] == ids


def test_a_message_that_is_as_it_should_be_is_sent_back_as_it_came(
    known: Memory,
) -> None:
    said: list[AIMessage] = []

    class Keeping(ScriptedChatModel):
        def _answer(self, messages: Any, schema: Any) -> AIMessage:
            said.append(super()._answer(messages, schema))
            return said[-1]

    thinking = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    model = Keeping(script=[asking(call(), content=thinking), DONE])
    run_navigator(model, known.user("ana"), QUESTION)
    assert model.requests[-1][2] is said[0]
    assert said[0].content == thinking


def test_an_answer_that_is_no_json_is_kept(known: Memory) -> None:
    done, _ = walk(known, "An aisle seat, I think.")
    assert (done.answer, done.well_formed) == ("An aisle seat, I think.", False)
    assert (done.finish, done.turns, done.tool_calls) == ("answered", 0, [])


def test_the_token_limit_ends_it_before_the_next_call(known: Memory) -> None:
    done, model = walk(known, asking(call()), max_tokens=30)  # 15 for each call
    assert (done.finish, len(model.requests)) == ("token_limit", 2)
    assert done.input_tokens + done.output_tokens == 30


def test_tokens_are_estimated_where_nobody_counts(known: Memory) -> None:
    class Silent(ScriptedChatModel):
        def _answer(self, messages: Any, schema: Any) -> AIMessage:
            said = super()._answer(messages, schema)
            return said.model_copy(update={"usage_metadata": None})

    done = run_navigator(
        Silent(script=[asking(call()), DONE]), known.user("ana"), QUESTION
    )
    assert not done.tokens_exact
    assert done.input_tokens > 500  # two requests with the rules
    assert 10 < done.output_tokens < 60


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_model_that_hangs_is_left(known: Memory, release: threading.Event) -> None:
    hanging: Callable[[Any], str] = lambda _: "late" if release.wait(60) else "later"  # noqa: E731
    done, _ = walk(known, asking(call()), hanging, timeout=0.3)
    assert (done.finish, done.turns) == ("model_error", 1)
    assert "no answer within 0.3 seconds" in done.problems[0]


async def test_cancelling_stops_it(known: Memory, release: threading.Event) -> None:
    hanging: Callable[[Any], str] = lambda _: "late" if release.wait(60) else "later"  # noqa: E731
    model = ScriptedChatModel(script=[hanging])
    task = asyncio.create_task(arun_navigator(model, known.user("ana"), QUESTION))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_memory_is_not_written_to(known: Memory) -> None:
    before = known.user("ana").export(), known.user("ana").export_records()
    walk(known, asking(call("remember", text="I own a yacht.")), DONE)
    assert (known.user("ana").export(), known.user("ana").export_records()) == before


def test_mistakes_of_the_caller_are_errors(known: Memory) -> None:
    class Mute(ScriptedChatModel):
        def bind_tools(self, tools: Any, **options: Any) -> Any:
            raise NotImplementedError

    ana = known.user("ana")
    with pytest.raises(InvalidInputError, match="Mute cannot call tools"):
        run_navigator(Mute(), ana, QUESTION)
    for question in ("", "  ", None):
        with pytest.raises(InvalidInputError, match="question"):
            run_navigator(ScriptedChatModel(), ana, question)  # type: ignore[arg-type]
    for options in ({"budget": -1}, {"budget": 1.5}, {"max_tokens": 0}, {"timeout": 0}):
        with pytest.raises(InvalidInputError, match=next(iter(options))):
            run_navigator(ScriptedChatModel(), ana, QUESTION, **options)  # type: ignore[arg-type]
    known.close()
    with pytest.raises(ClosedMemoryError):
        run_navigator(ScriptedChatModel(script=[asking(call())]), ana, QUESTION)


def test_an_interrupt_ends_the_walk(known: Memory) -> None:
    calls = list[int]()

    def interrupt_the_second_call(_: object) -> AIMessage:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        return asking(call(call_id=f"c{len(calls)}"))

    model = ScriptedChatModel(script=interrupt_the_second_call)
    with pytest.raises(KeyboardInterrupt):
        run_navigator(model, known.user("ana"), QUESTION, budget=12)
    time.sleep(1)
    assert len(calls) == 2
