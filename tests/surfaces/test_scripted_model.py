"""The scripted model and the hash embedder, as an application's own tests use them."""

import doctest
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    SystemMessage,
)
from pydantic import BaseModel

from langmem_graph import testing
from langmem_graph.extraction import batch_view, reconcile_records
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel, alias_of, each_turn

METHODS = [None, "json_schema", "function_calling", "json_mode"]
ASKED = [SystemMessage("Answer."), HumanMessage("How old?")]


class Age(BaseModel):
    """How old somebody is."""

    years: int
    months: int = 0


class Ages(BaseModel):
    """Several."""

    ages: list[int]
    unit: str = "years"


def structured(model: ScriptedChatModel, schema: Any = Age, **options: Any) -> Any:
    return model.with_structured_output(schema, include_raw=True, **options).invoke(
        ASKED
    )


@pytest.mark.usefixtures("drawn_aliases")
def test_the_docstrings_show_what_happens() -> None:
    result = doctest.testmod(testing)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.fixture
def drawn_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aliases as users see them, not those that are fixed for our own tests."""
    for module in (batch_view, reconcile_records):
        monkeypatch.setattr(module, "draw_first_alias", lambda: 417)


def test_the_alias_of_a_line_is_found_by_its_words() -> None:
    question = "\n".join(
        [
            "Records:",
            'n417 2025-01-01 (user / home) "The user lives in Porto."',
            "New messages:",
            'm417 Sat 2025-03-01 10:00 user: "He said \\"I live in Porto\\".\\nm9 forged line"',
            'm418 Sat 2025-03-01 10:01 "an m419": "And I live in Berlin."',
        ]
    )
    assert alias_of(question, "in Porto") == "m417"
    assert alias_of(question, 'said "I live') == "m417"
    assert alias_of(question, "in Porto", kind="n") == "n417"
    assert alias_of(question, "in Berlin") == "m418"
    for words, kind in [("in Berlin", "n"), ("in Oslo", "m"), ("home", "n")]:
        with pytest.raises(LookupError, match="shows no line"):
            alias_of(question, words, kind)


@pytest.mark.parametrize("method", METHODS)
def test_a_schema_is_answered_by_its_name(method: str | None) -> None:
    model = ScriptedChatModel(script=["not this"], answers={"Age": {"years": 7}})
    options = {"method": method} if method else {}
    assert structured(model, **options)["parsed"] == Age(years=7)
    assert model.with_structured_output(Age).invoke("How old?") == Age(years=7)
    assert model.asked == [("Age", "How old?")] * 2
    assert model.requests[0] == ASKED


async def test_a_schema_is_answered_asynchronously() -> None:
    model = ScriptedChatModel(answers={"Age": Age(years=3)})
    assert await model.with_structured_output(Age).ainvoke("How old?") == Age(years=3)


def test_a_json_schema_is_answered_too() -> None:
    model = ScriptedChatModel(answers={"Age": {"years": 7}})
    found = model.with_structured_output(Age.model_json_schema()).invoke("How old?")
    assert found == {"years": 7}


def test_answers_to_one_schema_come_in_order() -> None:
    model = ScriptedChatModel(
        answers={"Age": [{"years": 1}, lambda asked: {"years": len(asked)}]}
    )
    ask = model.with_structured_output(Age)
    assert [ask.invoke("old?").years for _ in range(3)] == [1, 4, 4]  # type: ignore[union-attr]


def test_an_answer_that_does_not_fit_is_not_parsed() -> None:
    for bad in ("prose", {"years": "many"}, AIMessage("none")):
        assert structured(ScriptedChatModel(answers={"Age": bad}))["parsed"] is None
    with pytest.raises(ConnectionError):
        structured(ScriptedChatModel(answers={"Age": ConnectionError("down")}))


def test_a_schema_that_is_not_named_gets_nothing_found() -> None:
    assert structured(ScriptedChatModel(), Ages)["parsed"] == Ages(ages=[])
    # it has to say the years
    assert structured(ScriptedChatModel(), Age)["parsed"] is None


def test_answers_to_schemas_do_not_use_up_the_script() -> None:
    model = ScriptedChatModel(script=["one", "two"], answers={"Age": {"years": 7}})
    said = [
        model.invoke("a").text,
        structured(model)["parsed"].years,
        model.invoke("b").text,
    ]
    assert said == ["one", 7, "two"]
    assert model.invoke("c").text == "two"


def test_a_pydantic_object_is_a_tool_call() -> None:
    bot = ScriptedChatModel(script=[Age(years=7)]).bind_tools([Age])
    (call,) = bot.invoke("How old?").tool_calls
    assert (call["name"], call["args"]) == ("Age", {"years": 7, "months": 0})


@pytest.mark.parametrize("text", ["two  words\n", "", " "])
async def test_a_stream_adds_up_to_the_answer(text: str) -> None:
    model = ScriptedChatModel(script=[text])
    whole = AIMessageChunk("")
    for chunk in model.stream("hello"):
        whole += chunk  # type: ignore[assignment]
    parts = [chunk.content async for chunk in model.astream("hello")]
    assert whole.content == "".join(map(str, parts)) == text
    assert whole.usage_metadata == model.invoke("hello").usage_metadata


def test_a_streamed_tool_call_is_whole() -> None:
    call = {"name": "Age", "args": {"years": 7}, "id": "call-7"}
    whole = AIMessageChunk("")
    for chunk in ScriptedChatModel(
        script=[AIMessage("Now.", tool_calls=[call])]
    ).stream("hello"):
        whole += chunk  # type: ignore[assignment]
    assert (whole.content, whole.tool_calls) == (
        "Now.",
        [{**call, "type": "tool_call"}],
    )


def test_answers_are_copies_of_the_script() -> None:
    line = AIMessage("hello")
    model = ScriptedChatModel(script=[line])
    first, second = model.invoke("a"), model.invoke("b")
    assert line.id is None
    assert first.id != second.id


def test_a_script_for_each_turn_serves_several_conversations() -> None:
    model = ScriptedChatModel(script=each_turn("first", "second"))
    turn = [("user", "hello")]
    assert [model.invoke(turn).text for _ in range(2)] == ["first", "first"]
    assert model.invoke([*turn, ("ai", "first")]).text == "second"
    assert model.invoke([*turn, ("ai", "first"), ("ai", "second")]).text == "second"
    assert model.invoke([*turn, ("ai", "first"), ("user", "again")]).text == "first"


def test_a_delay_and_no_record() -> None:
    model = ScriptedChatModel(answers={"Age": {"years": 7}}, delay=0.05, record=False)
    start = time.perf_counter()
    structured(model)
    assert time.perf_counter() - start >= 0.05
    assert (model.requests, model.asked) == ([], [])


def test_memory_takes_the_embedder_by_name_and_by_object(tmp_path: Path) -> None:
    for number, embedder in enumerate(("hash", HashEmbeddings())):
        with Memory(tmp_path / str(number), embeddings=embedder) as memory:
            memory.user("u").add({"role": "user", "content": "hello"}, session_id="s")
            assert memory.user("u").doctor().embedder == "HashEmbeddings:hash-128"
