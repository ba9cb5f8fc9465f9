"""An agent's own tool calls, completed and checked against memory before they run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from langmem_graph.errors import InvalidInputError
from langmem_graph.graphs.conversation_messages import worth_keeping
from langmem_graph.memory import Memory
from langmem_graph.middleware import MemoryMiddleware
from langmem_graph.middleware_tool_calls import _same, with_notes
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.testing import ScriptedChatModel
from tests.conftest import let_go
from tests.support.flights import ASKED, SAID, answer, taken
from tests.support.models import AnswersBySchema

ANA: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
RAN: list[dict[str, Any]] = []


@tool
def book_flight(destination: str, seat: str | None = None, bags: int = 1) -> str:
    """Book a flight."""
    RAN.append({"destination": destination, "seat": seat, "bags": bags})
    return "Booked."


@tool
def weather(city: str) -> str:
    """The weather."""
    RAN.append({"city": city})
    return "Sunny."


class Guest(BaseModel):
    name: str
    email: str | None = None


@tool
def invite(guest: Guest) -> str:
    """Invite a guest."""
    RAN.append(guest.model_dump())
    return "Invited."


class Visit(BaseModel):
    phone: str
    floor: int


@tool
def order(dish: str, visit: Visit | None = None) -> str:
    """Order a dish."""
    RAN.append({"dish": dish, "visit": visit and visit.model_dump()})
    return "Ordered."


def fill(prompt: str) -> dict[str, Any]:
    arguments = {"destination": "Łódź (Poland)", "seat": "aisle"}
    city = taken(prompt, "destination", "Łódź (Poland)", "m3")
    return answer(arguments, city, taken(prompt, "seat", "aisle", "m1"))


FILL: dict[str, Any] = {"fill": fill}


def told(prompt: str) -> Any:
    """What the test says."""
    return FILL["fill"](prompt)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    RAN.clear()
    settings = Settings(
        extraction=ExtractionSettings(debounce_seconds=3_600),
        storage=StorageSettings(closing_seconds=0.01),
    )
    model = AnswersBySchema(ToolFill=told, Extraction={"memories": []})
    opened = Memory(tmp_path / "m", model=model, embeddings="hash", settings=settings)
    rows = [{"role": "user", "content": text, "id": own} for own, text in SAID.items()]
    opened.user("ana").add(rows, session_id="s", at="2025-03-01")
    yield opened
    let_go(opened)


def agent(
    memory: Memory, args: dict[str, Any], name: str = "book_flight", **options: Any
) -> Any:
    call = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "c1"}])
    model = ScriptedChatModel(script=[call, "Done."])
    options = {"ground_tools": [book_flight], "extraction": "manual", **options}
    return create_agent(
        model,
        tools=[book_flight, weather, invite, order],
        middleware=[MemoryMiddleware(memory, **options)],
        checkpointer=InMemorySaver(),
    )


def ask(text: str = ASKED) -> Any:
    return {"messages": [HumanMessage(text)]}


def tool_answer(done: Any) -> ToolMessage:
    (answer,) = [m for m in done["messages"] if isinstance(m, ToolMessage)]
    return answer


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_what_the_agent_left_out_is_filled(memory: Memory, way: str) -> None:
    made = agent(memory, {"destination": "Łódź (Poland)"})
    done = (
        made.invoke(ask(), ANA) if way == "invoke" else await made.ainvoke(ask(), ANA)
    )
    assert RAN == [{"destination": "Łódź (Poland)", "seat": "aisle", "bags": 1}]
    assert tool_answer(done).content == "Booked."


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_contradiction_is_flagged(memory: Memory, way: str) -> None:
    made = agent(memory, {"destination": "Łódź (Poland)", "seat": "window"})
    done = (
        made.invoke(ask(), ANA) if way == "invoke" else await made.ainvoke(ask(), ANA)
    )
    assert RAN[0]["seat"] == "window"
    answer = str(tool_answer(done).content)
    assert answer.startswith("Booked.\nNote from memory:")
    assert 'seat was "window", but memory says "aisle" ("aisle", m1)' in answer


@pytest.mark.parametrize(
    ("given", "remembered", "is_same"),
    [
        ("Dr Ana Ruiz", "ana ruiz", True),
        ([{"name": "Ana"}], [{"name": "Ana Ruiz"}], True),
        ("", "Ana Ruiz", False),
        ("Anna", "Ana", False),
        ("12A", "12a ", True),
        ("4711", "4711 0815", False),
        ([{"name": "Ana"}], [{"name": "Eva"}], False),
        ({"name": "Ana"}, {"name": "Ana", "seat": "12A"}, False),
    ],
)
def test_a_part_of_a_name_is_no_contradiction(
    given: Any, remembered: Any, is_same: bool
) -> None:
    assert _same(given, remembered) is is_same
    assert _same(remembered, given) is is_same


def test_what_the_user_asks_for_now_is_no_contradiction(memory: Memory) -> None:
    made = agent(memory, {"destination": "Łódź (Poland)", "seat": "window"})
    done = made.invoke(
        ask("Book the flight, a window seat this time. I always usual"), ANA
    )
    assert tool_answer(done).content == "Booked."


def test_the_note_is_not_stored_as_what_the_tool_said(memory: Memory) -> None:
    made = agent(memory, {"destination": "Łódź (Poland)", "seat": "window"})
    made.invoke(ask(), ANA)
    # the whole conversation is sent again
    made.invoke(ask("And what is the gate?"), ANA)
    stored = [message["content"] for message in memory.user("ana").export()]
    assert not [text for text in stored if "Note from memory" in text]
    assert stored.count("Booked.") == 1


def test_only_the_note_itself_is_cut() -> None:
    noted = with_notes(
        ToolMessage("Booked.\nNote from memory:\nnone", tool_call_id="c"), ["a"]
    )
    (kept,) = worth_keeping([noted])
    assert kept.content == "Booked.\nNote from memory:\nnone"
    (said,) = worth_keeping([HumanMessage(str(noted.content))])
    assert said.content == noted.content


@pytest.mark.parametrize(
    ("resume", "ran"),
    [
        (True, [{"destination": "Łódź (Poland)", "seat": "window", "bags": 1}]),
        (
            {"seat": "aisle"},
            [{"destination": "Łódź (Poland)", "seat": "aisle", "bags": 1}],
        ),
        (False, []),
    ],
)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_human_may_decide(
    memory: Memory, way: str, resume: Any, ran: Any
) -> None:
    args = {"destination": "Łódź (Poland)", "seat": "window"}
    made = agent(memory, args, on_contradiction="interrupt")

    async def run(given: Any) -> Any:
        return (
            made.invoke(given, ANA)
            if way == "invoke"
            else await made.ainvoke(given, ANA)
        )

    stopped = await run(ask())
    (question,) = stopped["__interrupt__"]
    assert question.value["tool"] == "book_flight"
    assert "memory says" in question.value["contradictions"][0]
    assert RAN == []
    done = await run(Command(resume=resume))
    assert ran == RAN
    if resume is False:
        assert tool_answer(done).status == "error"


@pytest.mark.parametrize("then", [RuntimeError("down"), {"arguments": {}}])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_refused_call_stays_refused_whatever_the_model_says_next(
    memory: Memory, way: str, then: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def differently(prompt: str) -> Any:
        asked.append(prompt)
        if len(asked) > 1 and isinstance(then, Exception):
            raise then
        return fill(prompt) if len(asked) == 1 else then

    monkeypatch.setitem(FILL, "fill", differently)
    made = agent(
        memory, {"destination": "X", "seat": "window"}, on_contradiction="interrupt"
    )

    async def run(given: Any) -> Any:
        return (
            made.invoke(given, ANA)
            if way == "invoke"
            else await made.ainvoke(given, ANA)
        )

    await run(ask())
    done = await run(Command(resume=False))
    assert (RAN, len(asked)) == ([], 1)
    assert tool_answer(done).status == "error"


def test_a_conclusion_that_does_not_follow_is_not_called_with(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guess(prompt: str) -> Any:
        return answer({"bags": 4}, taken(prompt, "bags", "with 2 bags", "m3"))

    monkeypatch.setitem(FILL, "fill", guess)
    agent(memory, {"destination": "Oslo"}).invoke(ask(), ANA)
    assert RAN == [{"destination": "Oslo", "seat": None, "bags": 1}]


def test_the_same_value_in_another_form_is_no_contradiction(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def two(prompt: str) -> Any:
        words = "Łódź (Poland) with 2"
        return answer({"destination": words}, taken(prompt, "destination", words, "m3"))

    monkeypatch.setitem(FILL, "fill", two)
    done = agent(memory, {"destination": "Łódź"}).invoke(ask(), ANA)
    assert tool_answer(done).content == "Booked."


def test_parts_of_an_object_that_the_agent_left_out(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parts(prompt: str) -> Any:
        email = "mira+air@example.org"
        cited = (
            taken(prompt, "guest.name", "Łódź", "m3"),
            taken(prompt, "guest.email", email, "m4"),
        )
        return answer({"guest": {"name": "Łódź", "email": email}}, *cited)

    monkeypatch.setitem(FILL, "fill", parts)
    options = {"ground_tools": [invite]}
    agent(memory, {"guest": {"name": "Łódź"}}, "invite", **options).invoke(ask(), ANA)
    assert RAN == [{"name": "Łódź", "email": "mira+air@example.org"}]


@pytest.mark.parametrize(
    "answer",
    [
        ToolMessage([{"type": "text", "text": "Booked."}], tool_call_id="c"),
        Command(
            update={"messages": [ToolMessage("Booked.", tool_call_id="c")], "seat": 1}
        ),
    ],
)
def test_any_answer_of_a_tool_is_told_the_note(answer: Any) -> None:
    noted = with_notes(answer, ["seat was taken"])
    (message,) = noted.update["messages"] if isinstance(noted, Command) else [noted]
    assert message.text.startswith("Booked.")
    assert "seat was taken" in message.text
    assert with_notes(answer, []) == answer


def test_answers_without_a_message_stay_as_they_are() -> None:
    plain = Command(goto="end")
    assert with_notes(plain, ["seat was taken"]) is plain


def test_an_object_that_the_agent_left_out_is_not_added_in_part(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is required in it is not known, so that the call would fit its schema no more."""

    def half(prompt: str) -> dict[str, Any]:
        visit = taken(prompt, "visit.phone", "aisle", "m1")
        return answer({"dish": "soup", "visit": {"phone": "aisle"}}, visit)

    monkeypatch.setitem(FILL, "fill", half)
    agent(memory, {"dish": "soup"}, "order", ground_tools=[order]).invoke(ask(), ANA)
    assert RAN == [{"dish": "soup", "visit": None}]


def test_other_tools_run_as_they_are(memory: Memory) -> None:
    agent(memory, {"city": "Oslo"}, "weather").invoke(ask(), ANA)
    assert RAN == [{"city": "Oslo"}]
    assert "ToolFill" not in [name for name, _ in memory._pipelines.model.asked]


def test_memory_that_fails_does_not_stop_the_call(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.memory.UserMemory.ground", fail)
    agent(memory, {"destination": "Rome"}).invoke(ask(), ANA)
    assert RAN == [{"destination": "Rome", "seat": None, "bags": 1}]


@pytest.mark.parametrize("fail_closed", [False, True])
def test_arguments_that_cannot_be_checked_are_sent_as_they_are(
    memory: Memory, fail_closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seat: Any = "12A"
    for _ in range(400):
        seat = [seat]
    given = {"destination": "Rome", "seat": seat}
    call = AIMessage("", tool_calls=[{"name": "book_flight", "args": given, "id": "c"}])
    made = create_agent(
        ScriptedChatModel(script=[call, "Done."]),
        tools=[book_flight],
        middleware=[
            MemoryMiddleware(
                memory,
                ground_tools=[book_flight],
                extraction="manual",
                fail_closed=fail_closed,
            )
        ],
    )
    if fail_closed:
        with pytest.raises(RecursionError):
            made.invoke(ask(), ANA)
        return
    answered = tool_answer(made.invoke(ask(), ANA))
    assert "seat" in str(answered.content)  # no text: the tool itself refuses it
    assert "sent unchecked: RecursionError" in caplog.text


def test_a_model_that_fails_does_not_stop_the_call(memory: Memory) -> None:
    memory._pipelines.model.answers["ToolFill"] = ConnectionError("gone")
    agent(memory, {"destination": "Rome"}).invoke(ask(), ANA)
    assert RAN == [{"destination": "Rome", "seat": None, "bags": 1}]


def test_events_say_what_was_done(memory: Memory) -> None:
    made = agent(memory, {"destination": "Łódź (Poland)"})
    events = list(made.stream(ask(), ANA, stream_mode="custom"))
    (one,) = [event for event in events if event["event"] == "memory_tool_call"]
    assert (one["tool"], one["added"], one["contradictions"]) == (
        "book_flight",
        ["seat"],
        [],
    )


def test_options_are_checked(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="on_contradiction"):
        MemoryMiddleware(memory, on_contradiction="shout")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="is no tool"):
        MemoryMiddleware(memory, ground_tools=[7])
    with pytest.raises(InvalidInputError, match="same name"):
        MemoryMiddleware(memory, ground_tools=[book_flight, book_flight])
    with (
        Memory(tmp_path / "plain", embeddings="hash") as plain,
        pytest.raises(InvalidInputError, match="needs a memory with a model"),
    ):
        MemoryMiddleware(plain, ground_tools=[book_flight])


def asking_tool() -> Any:
    @tool("book_flight")
    def asks_before_booking(
        destination: str, seat: str | None = None, bags: int = 1
    ) -> str:
        """Book a flight."""
        if interrupt({"seat": seat}):
            RAN.append({"destination": destination, "seat": seat, "bags": bags})
        return "Booked."

    return asks_before_booking


@pytest.mark.parametrize("mode", ["flag", "interrupt"])
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_what_a_human_has_agreed_to_in_the_tool_is_what_runs(
    memory: Memory, way: str, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def at_first(prompt: str) -> Any:
        asked.append(prompt)
        return fill(prompt) if len(asked) == 1 else {"arguments": {}}

    monkeypatch.setitem(FILL, "fill", at_first)
    call = {"name": "book_flight", "args": {"destination": "Łódź (Poland)"}, "id": "c1"}
    options: Any = {"ground_tools": [book_flight], "extraction": "manual"}
    made = create_agent(
        ScriptedChatModel(script=[AIMessage("", tool_calls=[call]), "Done."]),
        tools=[asking_tool()],
        middleware=[MemoryMiddleware(memory, on_contradiction=mode, **options)],
        checkpointer=InMemorySaver(),
    )

    async def run(given: Any) -> Any:
        return (
            made.invoke(given, ANA)
            if way == "invoke"
            else await made.ainvoke(given, ANA)
        )

    (question,) = (await run(ask()))["__interrupt__"]
    assert question.value == {"seat": "aisle"}
    await run(Command(resume=True))
    assert RAN == [{"destination": "Łódź (Poland)", "seat": "aisle", "bags": 1}]


@pytest.mark.parametrize("seat", [None, "aisle"])
def test_no_stream_shows_what_memory_knows_beyond_the_question(
    memory: Memory, seat: str | None
) -> None:
    args = {"destination": "Łódź (Poland)", "seat": seat}
    made = agent(memory, args, on_contradiction="interrupt")
    seen = list(
        made.stream(ask(), ANA, stream_mode=["updates", "values", "messages", "custom"])
    )
    assert RAN[0]["seat"] == "aisle"
    looked = [
        chunk
        for kind, chunk in seen
        if kind == "updates" and "memory_grounding" in chunk
    ]
    assert looked == [{"memory_grounding": None}]


def test_what_is_kept_for_a_question_is_the_question(memory: Memory) -> None:
    args = {"destination": "Łódź (Poland)", "seat": "window"}
    made = agent(memory, args, on_contradiction="interrupt")
    seen = {name: update for c in made.stream(ask(), ANA) for name, update in c.items()}
    (question,) = seen["__interrupt__"]
    assert question.value == {"tool": "book_flight", **seen["memory_grounding"]}


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("agreed", [True, False])
async def test_another_user_who_resumes_sends_nothing_of_the_first_one(
    memory: Memory, way: str, agreed: bool
) -> None:
    args = {"destination": "Oslo", "seat": None, "bags": 9}
    made = agent(memory, args, on_contradiction="interrupt")
    (question,) = made.invoke(ask(), ANA)["__interrupt__"]
    assert question.value["arguments"]["seat"] == "aisle"
    ben = {"configurable": {**ANA["configurable"], "user_id": "ben"}}
    answer: Any = Command(resume=agreed)
    if way == "invoke":
        made.invoke(answer, ben)
    else:
        await made.ainvoke(answer, ben)
    assert len(RAN) == agreed
    assert all(ran == args for ran in RAN)
