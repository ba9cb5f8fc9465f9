"""Tool calls filled from memory: copied byte for byte, or missing, never invented."""

import re
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph.grounding.tool_schema import tool_spec
from tests.support.flight_bookings import BookFlight, Contact, fill, good
from tests.support.flights import ASKED, SAID, alias, copy
from tests.support.models import AnswersBySchema


def calls(model: AnswersBySchema) -> list[str]:
    return [name for name, _ in model.asked]


def test_a_call_is_filled_from_memory_byte_for_byte(open_memory: Any) -> None:
    model = good()
    call = open_memory(model).user("ana").ground(BookFlight, ASKED)
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
    assert calls(model) == ["ToolFill", "Verdicts"]
    assert call.llm_calls == 2


def test_without_inferred_values_it_is_one_call(open_memory: Any) -> None:
    model = good(ToolFill=lambda p: {"slots": fill(p)["slots"][:2]})
    call = open_memory(model).user("ana").ground(BookFlight, ASKED)
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

    model = good(ToolFill=guess, Verdicts={"verdicts": [{"number": 1, "follows": False}]})
    call = open_memory(model).user("ana").ground(Insure, "insures everything?", policy=policy)
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
    model = good(ToolFill={"slots": [{"slot": "destination", **entry}]})
    call = open_memory(model).user("ana").ground(BookFlight, ASKED)
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
    model = good(ToolChoice=choose)
    call = open_memory(model).user("ana").ground([hotel, BookFlight], ASKED)
    assert call.name == "BookFlight"
    assert calls(model) == ["ToolChoice", "ToolFill", "Verdicts"]
    assert call.llm_calls == 3


def test_a_choice_that_cannot_be_used_is_the_likeliest_tool(open_memory: Any) -> None:
    hotel = {"name": "hotel_room", "description": "A bed for the night", "parameters": {}}
    model = good(ToolChoice={"tool": "t99"})
    call = open_memory(model).user("ana").ground([hotel, BookFlight], "Book a flight to a city")
    assert call.name == "BookFlight"


def test_a_tool_without_arguments_costs_no_call(open_memory: Any) -> None:
    model = good()
    call = open_memory(model).user("ana").ground({"name": "ping"}, "ping it")
    assert (call.name, call.arguments, call.missing, calls(model)) == ("ping", {}, [], [])
