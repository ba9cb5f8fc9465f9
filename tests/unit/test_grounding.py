"""Tool calls filled from memory: copied byte for byte, or missing, never invented."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from blockbuster import blockbuster_ctx
from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, Field

from langmem_graph.errors import InvalidInputError, MissingUserError
from langmem_graph.graphs.grounding_graph import create_grounding_graph
from langmem_graph.grounding.tool_schema import tool_spec
from langmem_graph.memory import Memory
from langmem_graph.schemas import GroundedCall
from tests.support.flights import ASKED, SAID, alias, copy
from tests.support.goals import BAD
from tests.support.minds import Mind
from tests.support.settings import nested


class Contact(BaseModel):
    email: str
    phone: str | None = None


class BookFlight(BaseModel):
    """Book a flight."""

    destination: str = Field(description="city")
    seat: Literal["Aisle", "Window"] = "Window"
    bags: int = 1
    flyer_number: str | None = None
    extras: list[str] = []
    insured: bool | None = None
    contact: Contact | None = None


SPEC: dict[str, Any] = {
    "type": "function",
    "function": {"name": "BookFlight", "parameters": tool_spec(BookFlight).schema},
}
ANA = {"configurable": {"user_id": "ana"}}


def candidate(prompt: str, raw: str) -> str:
    shown = re.escape(json.dumps(raw, ensure_ascii=False))
    found = re.search(rf"^(v\d+): {shown} ", prompt, re.MULTILINE)
    assert found, f"{raw!r} is no candidate:\n{prompt}"
    return found[1]


def fill(prompt: str) -> dict[str, Any]:
    insured = {"slot": "insured", "how": "infer", "value": "true"}
    return {
        "slots": [
            copy(prompt, "destination", "łódź (poland)", "m3"),
            copy(prompt, "seat", "aisle", "m1"),
            {"slot": "bags", "how": "copy", "candidate": candidate(prompt, "2")},
            copy(prompt, "flyer_number", "LH-992 441/x", "m2"),
            copy(prompt, "extras", "vegan meal", "m5"),
            copy(prompt, "extras", "blanket", "m5"),
            {**insured, "sources": [alias(prompt, SAID["m6"])]},
            {
                "slot": "contact.email",
                "how": "copy",
                "candidate": candidate(prompt, "mira+air@example.org"),
            },
            {"slot": "contact.phone", "how": "missing"},
        ]
    }


def good(**answers: Any) -> Mind:
    verdict = {"verdicts": [{"number": 1, "follows": True}]}
    return Mind(**{"ToolFill": fill, "Verdicts": verdict, **answers})


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Any]:
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        chosen = nested(
            **{"extraction__debounce_seconds": 3_600, "storage__closing_seconds": 0.01, **settings}
        )
        memory = Memory(tmp_path / "m", model=model, embeddings="hash", settings=chosen)
        opened.append(memory)
        rows = [{"role": "user", "content": text, "id": own} for own, text in SAID.items()]
        memory.user("ana").add(rows, session_id="s", at="2025-03-01")
        return memory

    yield make
    for memory in opened:
        memory.close()


def calls(mind: Mind) -> list[str]:
    return [name for name, _ in mind.asked]


def test_a_call_is_filled_from_memory_byte_for_byte(open_memory: Any) -> None:
    mind = good()
    call = open_memory(mind).user("ana").ground(BookFlight, ASKED)
    assert call.name == "BookFlight"
    assert call.arguments == {
        "destination": "Łódź (Poland)",
        "seat": "Aisle",
        "bags": 2,
        "flyer_number": "LH-992 441/x",
        "extras": ["vegan meal", "blanket"],
        "insured": True,
        "contact": {"email": "mira+air@example.org"},
    }
    BookFlight.model_validate(call.arguments)
    seat = call.grounding["seat"]
    assert (seat.type, seat.message_ids, seat.text) == ("explicit", ["m1"], "aisle")
    assert call.grounding["insured"].type == "inferred"
    assert call.grounding["contact.email"].message_ids == ["m4"]
    assert (call.missing, call.warnings) == ([], [])
    assert calls(mind) == ["ToolFill", "Verdicts"]
    assert call.llm_calls == 2


def test_without_inferred_values_it_is_one_call(open_memory: Any) -> None:
    mind = good(ToolFill=lambda p: {"slots": fill(p)["slots"][:2]})
    call = open_memory(mind).user("ana").ground(BookFlight, ASKED)
    assert call.llm_calls == 1
    assert call.arguments["bags"] == 1
    assert call.grounding["bags"].type == "default"


@pytest.mark.parametrize("policy", ["flag", "drop", "ask"])
def test_what_does_not_surely_follow(open_memory: Any, policy: Any) -> None:
    def guess(prompt: str) -> dict[str, Any]:
        source = alias(prompt, SAID["m6"])
        return {
            "slots": [{"slot": "insured", "how": "infer", "value": "true", "sources": [source]}]
        }

    class Insure(BaseModel):
        insured: bool | None = None

    mind = good(ToolFill=guess, Verdicts={"verdicts": [{"number": 1, "follows": False}]})
    call = open_memory(mind).user("ana").ground(Insure, "insures everything?", policy=policy)
    assert ("insured" in call.arguments) is (policy == "flag")
    doubts = [*call.warnings, *(one.reason for one in call.missing if one.name == "insured")]
    assert any("does not surely follow" in doubt for doubt in doubts), doubts


@pytest.mark.parametrize(
    "entry",
    [
        {"how": "copy", "words": "Paris", "sources": ["f0"]},
        {"how": "copy", "candidate": "v99"},
        {"how": "copy", "words": "", "sources": ["f1"]},
        {"how": "copy", "words": "Paris", "sources": ["f77"]},
        {"how": "infer", "value": '"Paris"', "sources": ["f77"]},
        {"how": "infer", "value": "", "sources": ["f1"]},
        {"how": "default"},
        {"how": "missing"},
        {"how": "conflict", "sources": ["f1"]},
    ],
)
def test_a_value_from_nowhere_is_missing(open_memory: Any, entry: Any) -> None:
    mind = good(ToolFill={"slots": [{"slot": "destination", **entry}]})
    call = open_memory(mind).user("ana").ground(BookFlight, ASKED)
    assert "destination" not in call.arguments
    assert [one.name for one in call.missing] == ["destination"]


def test_words_that_are_no_value_of_the_slot_are_told_where_its_default_is_taken(
    open_memory: Any,
) -> None:
    entry = {"slot": "bags", "how": "copy", "words": "my usual seat", "sources": ["f0"]}
    call = open_memory(good(ToolFill={"slots": [entry]})).user("ana").ground(BookFlight, ASKED)
    assert call.arguments["bags"] == 1
    assert any("bags has its default: does not fit" in warning for warning in call.warnings)


def test_words_are_copied_as_they_stand_in_any_text_of_the_source(open_memory: Any) -> None:
    """The message says it with another case than the record does."""

    class Exclude(BaseModel):
        plant: str

    memory = open_memory(good(Extraction={"memories": []}))
    ana = memory.user("ana")
    ana.add([{"role": "user", "content": "Lilies kill cats.", "id": "m8"}], session_id="s")
    ana.add_records([{"text": "No lilies near the cats.", "source_message_ids": ["m8"]}])

    def copied(prompt: str) -> dict[str, Any]:
        source = alias(prompt, "No lilies near the cats.")
        return {"slots": [{"slot": "plant", "how": "copy", "words": "lilies", "sources": [source]}]}

    memory._pipelines.model.answers["ToolFill"] = copied
    call = ana.ground(Exclude, "Which lilies or cats?")
    assert call.arguments == {"plant": "lilies"}


def test_a_record_is_found_by_what_its_attribute_is_called(open_memory: Any) -> None:
    """No word of the request or of the tool stands in it, and much else is talked about."""

    class BookRepair(BaseModel):
        """Take something to a workshop."""

        shop: str

    memory = open_memory(good())
    ana = memory.user("ana")
    for n in range(60):
        said = {"role": "user", "content": f"Book repair {n}: take it, workshop.", "id": f"x{n}"}
        ana.add([said], session_id="s")
    ana.add(
        [{"role": "user", "content": "Only Szprycha may touch it.", "id": "m9"}], session_id="t"
    )
    record = {"text": "Szprycha is trusted.", "source_message_ids": ["m9"]}
    ana.add_records([{**record, "subject": "user", "attribute": "bike_shop"}])

    def copied(prompt: str) -> dict[str, Any]:
        source = alias(prompt, "Szprycha is trusted.")
        return {
            "slots": [{"slot": "shop", "how": "copy", "words": "Szprycha", "sources": [source]}]
        }

    memory._pipelines.model.answers["ToolFill"] = copied
    call = ana.ground(BookRepair, "Book the repair.")
    assert call.arguments == {"shop": "Szprycha"}


def test_contradicting_sources_are_missing_with_both_shown(open_memory: Any) -> None:
    def disagree(prompt: str) -> dict[str, Any]:
        both = [alias(prompt, SAID["m1"]), alias(prompt, SAID["m3"])]
        return {"slots": [{"slot": "destination", "how": "conflict", "sources": both}]}

    call = open_memory(good(ToolFill=disagree)).user("ana").ground(BookFlight, ASKED)
    (missing,) = call.missing
    assert missing.reason == "sources disagree"
    assert set(missing.values) == {SAID["m1"], SAID["m3"]}


def test_two_values_for_one_slot_are_a_conflict(open_memory: Any) -> None:
    def twice(prompt: str) -> dict[str, Any]:
        first = copy(prompt, "destination", "Łódź", "m3")
        return {"slots": [first, copy(prompt, "destination", "planes", "m1")]}

    call = open_memory(good(ToolFill=twice)).user("ana").ground(BookFlight, ASKED)
    assert call.missing[0].reason == "sources disagree"
    assert len(call.missing[0].values) == 2


def test_what_is_no_longer_true_fills_nothing(open_memory: Any) -> None:
    memory = open_memory(good(ToolFill=lambda p: {"slots": [copy(p, "seat", "aisle", "m1")]}))
    ana = memory.user("ana")
    old = {"text": "The user takes an aisle seat.", "source_message_ids": ["m1"]}
    new = {"text": "The user takes a window seat.", "source_message_ids": ["m6"]}
    ana.add_records([{**old, "record_id": "old"}])
    ana.add_records([{**new, "supersedes": ["old"]}])
    call = ana.ground(BookFlight, f"{ASKED} aisle planes always take")
    assert call.arguments["seat"] == "Window"
    assert call.grounding["seat"].type == "default"


def test_an_optional_object_without_what_it_needs_is_left_out(open_memory: Any) -> None:
    phone = {"slot": "contact.phone", "how": "copy", "words": "june", "sources": []}

    def only_phone(prompt: str) -> dict[str, Any]:
        return {"slots": [{**phone, "sources": [alias(prompt, SAID["m3"])]}]}

    schema = tool_spec(BookFlight).schema
    plain = {**schema["properties"], "contact": Contact.model_json_schema()}
    tool = {"name": "book", "parameters": {**schema, "properties": plain}}
    call = open_memory(good(ToolFill=only_phone)).user("ana").ground(tool, ASKED)
    assert "contact" not in call.arguments
    assert any(warning.startswith("contact is left out") for warning in call.warnings)
    assert [one.name for one in call.missing] == ["destination"]


def test_of_several_tools_one_is_chosen(open_memory: Any) -> None:
    def choose(prompt: str) -> dict[str, Any]:
        found = re.search(r'^(t\d+): "BookFlight', prompt, re.MULTILINE)
        assert found
        return {"tool": found[1]}

    hotel = {"name": "book_hotel", "description": "Book a hotel", "parameters": {}}
    mind = good(ToolChoice=choose)
    call = open_memory(mind).user("ana").ground([hotel, BookFlight], ASKED)
    assert call.name == "BookFlight"
    assert calls(mind) == ["ToolChoice", "ToolFill", "Verdicts"]
    assert call.llm_calls == 3


def test_a_choice_that_cannot_be_used_is_the_likeliest_tool(open_memory: Any) -> None:
    hotel = {"name": "hotel_room", "description": "A bed for the night", "parameters": {}}
    mind = good(ToolChoice={"tool": "t99"})
    call = open_memory(mind).user("ana").ground([hotel, BookFlight], "Book a flight to a city")
    assert call.name == "BookFlight"


def test_a_tool_without_arguments_costs_no_call(open_memory: Any) -> None:
    mind = good()
    call = open_memory(mind).user("ana").ground({"name": "ping"}, "ping it")
    assert (call.name, call.arguments, call.missing, calls(mind)) == ("ping", {}, [], [])


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("step", ["ToolFill", "Verdicts", "ToolChoice"])
def test_bad_answers_invent_nothing(open_memory: Any, step: str, bad: Any) -> None:
    mind = good(**{step: bad})
    ana = open_memory(mind).user("ana")
    tools = [BookFlight, BookFlight] if step == "ToolChoice" else BookFlight
    call = ana.ground(tools, ASKED)
    assert GroundedCall.model_validate_json(call.model_dump_json()) == call
    needed = {one.name for one in call.missing}
    errors = list(Draft202012Validator(tool_spec(BookFlight).schema).iter_errors(call.arguments))
    assert not errors or "destination" in needed
    said = " ".join([*SAID.values(), ASKED])
    for name, where in call.grounding.items():
        assert (
            where.type == "default" or where.text.casefold() in said.casefold() or name == "extras"
        )


async def test_every_way_gives_the_same(open_memory: Any) -> None:
    memory = open_memory(good())
    ana = memory.user("ana")
    graph = create_grounding_graph(memory, tools=BookFlight)
    served = create_grounding_graph(memory)
    asked: Any = {"messages": [HumanMessage(ASKED)]}
    found = [
        ana.ground(BookFlight, ASKED).model_dump(mode="json"),
        (await ana.aground(BookFlight, ASKED)).model_dump(mode="json"),
        graph.invoke(asked, ANA)["call"],
        (await graph.ainvoke(asked, ANA))["call"],
        list(graph.stream({"request": ASKED}, ANA, stream_mode="values"))[-1]["call"],
        served.invoke({"request": ASKED, "tools": [SPEC]}, ANA)["call"],
    ]
    assert all(one == found[0] for one in found)


async def test_nothing_blocks_the_loop(open_memory: Any) -> None:
    memory = open_memory(good())
    await memory.user("ana").aground(BookFlight, ASKED)
    graph = create_grounding_graph(memory, tools=BookFlight)
    with blockbuster_ctx():
        done = await graph.ainvoke({"request": ASKED}, ANA)
        call = await memory.user("ana").aground(BookFlight, ASKED)
    assert done["call"] == call.model_dump(mode="json")


def test_two_users_do_not_mix(open_memory: Any) -> None:
    memory = open_memory(Mind())
    memory.user("bob").add([{"role": "user", "content": "I fly to Rome."}], session_id="b")
    mind = memory._pipelines.model
    create_grounding_graph(memory, tools=BookFlight).invoke(
        {"request": ASKED}, {"configurable": {"user_id": "bob"}}
    )
    prompts = " ".join(question for _, question in mind.asked)
    assert "Rome" in prompts
    assert "aisle" not in prompts
    with pytest.raises(MissingUserError):
        create_grounding_graph(memory, tools=BookFlight).invoke({"request": ASKED}, {})


def test_memory_that_fails_leaves_the_request(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mind = good(
        ToolFill={
            "slots": [{"slot": "destination", "how": "copy", "words": "Rome", "sources": ["f0"]}]
        }
    )
    memory = open_memory(mind)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr("langmem_graph.retrieval.facts.find_facts", fail)
    call = memory.user("ana").ground(BookFlight, "A flight to Rome, please")
    assert call.arguments["destination"] == "Rome"
    assert call.grounding["destination"].message_ids == []
    assert "OSError: disk" in call.warnings[0]


def test_bad_requests_are_refused(open_memory: Any, tmp_path: Path) -> None:
    memory = open_memory(Mind())
    ana = memory.user("ana")
    for tool, request, options in (
        (BookFlight, " ", {}),
        (BookFlight, None, {}),
        (BookFlight, "x", {"policy": "guess"}),
        (BookFlight, "x", {"at": "soonish"}),
        ([], "x", {}),
        (7, "x", {}),
    ):
        with pytest.raises(InvalidInputError):
            ana.ground(tool, request, **options)
    with pytest.raises(InvalidInputError):
        create_grounding_graph(memory, tools=7)
    with pytest.raises(InvalidInputError, match="policy"):
        create_grounding_graph(memory, tools=BookFlight, policy="guess")  # type: ignore[arg-type]
    with Memory(tmp_path / "plain", embeddings="hash") as plain:
        with pytest.raises(InvalidInputError, match="needs a model"):
            plain.user("ana").ground(BookFlight, "x")
        with pytest.raises(InvalidInputError, match="needs a memory with a model"):
            create_grounding_graph(plain)


def test_the_nodes_have_the_names_of_the_steps(open_memory: Any) -> None:
    graph = create_grounding_graph(open_memory(Mind()))
    steps = ["select_tool", "retrieve_slots", "fill", "verify", "decide"]
    assert [name for name in graph.get_graph().nodes if not name.startswith("__")] == steps


def test_a_model_that_only_talks(open_memory: Any) -> None:
    call = open_memory(Mind(ToolFill=AIMessage("sure"))).user("ana").ground(BookFlight, ASKED)
    assert [one.name for one in call.missing] == ["destination"]
    assert call.warnings


def test_what_a_checkpointer_saves_is_json(open_memory: Any) -> None:
    """A server gives a graph its own checkpointer; what it saves needs no class of this package."""
    saver = InMemorySaver()
    graph = create_grounding_graph(open_memory(good()), tools=BookFlight)
    served = graph.copy(update={"checkpointer": saver})
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    for _ in range(2):
        done = served.invoke({"messages": [HumanMessage(ASKED)]}, config)
    state = served.get_state(config).values
    assert state["tool"]["name"] == "BookFlight"
    assert state["call"] == json.loads(json.dumps(done["call"])) == done["call"]
    assert "langmem_graph" not in f"{saver.storage}{saver.blobs}{saver.writes}"


def test_the_last_message_of_a_thread_is_the_request(open_memory: Any) -> None:
    memory = open_memory(good())
    served = create_grounding_graph(memory).copy(update={"checkpointer": InMemorySaver()})
    config: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
    served.invoke({"messages": [HumanMessage("Hello!")], "tools": [SPEC]}, config)
    done = served.invoke({"messages": [AIMessage("Hi!"), HumanMessage(ASKED)]}, config)
    alone = memory.user("ana").ground(BookFlight, ASKED).model_dump(mode="json")
    assert done["call"] == alone
    assert served.get_state(config).values["query"] == ASKED
