"""Tool calls filled from memory: copied byte for byte, or missing, never invented."""

import re
from typing import Any

import pytest
from pydantic import BaseModel

from langmem_graph.errors import InvalidInputError
from langmem_graph.llm.tool_specs import tool_spec
from tests.support.flight_bookings import BookFlight, Contact, good
from tests.support.flights import ASKED, SAID, alias, answer, filling, taken
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
        "contact": {"email": "mira+air@example.org"},
        "insured": True,
    }
    BookFlight.model_validate(call.arguments)
    seat = call.grounding["seat"]
    assert (seat.type, seat.message_ids, seat.text) == ("read", ["m1"], "an aisle seat")
    assert call.grounding["flyer_number"].type == "copied"
    assert call.grounding["contact.email"].message_ids == ["m4"]
    assert call.missing == []
    assert call.warnings == []
    assert (calls(model), call.llm_calls) == (["ToolFill"], 1)


def test_what_is_not_given_has_its_default(open_memory: Any) -> None:
    model = good(
        ToolFill=lambda p: answer(
            {"destination": "Łódź"}, taken(p, "destination", "Łódź", "m3")
        )
    )
    call = open_memory(model).user("ana").ground(BookFlight, ASKED)
    assert call.arguments["bags"] == 1
    assert call.grounding["bags"].type == "default"


READING = "is the model's reading of “a nervous person who insures everything”"


@pytest.mark.parametrize("read", ["send", "ask", "omit"])
@pytest.mark.parametrize("named", ["", "BookFlight", "insured", "BookFlight.insured"])
def test_what_becomes_of_a_reading_is_up_to_the_application(
    open_memory: Any, read: Any, named: str
) -> None:
    modes = {named: read} if named else read
    call = open_memory(good()).user("ana").ground(BookFlight, ASKED, read=modes)
    assert call.arguments.get("insured") is (True if read == "send" else None)
    if read == "send":
        assert call.grounding["insured"].type == "read"
        assert call.grounding["insured"].message_ids == ["m6"]
    if read == "ask":
        offered = call.offered["insured"]
        assert (offered.value, offered.type, offered.origin) == (True, "read", "user")
    if read == "omit":
        assert f"insured is left out: {READING}" in call.warnings
    # a text is no reading
    assert call.arguments["flyer_number"] == "LH-992 441/x"


@pytest.mark.parametrize("read", ["never", {"seat": "sometimes"}, {7: "send"}, None])
def test_an_unknown_mode_is_refused(open_memory: Any, read: Any) -> None:
    with pytest.raises(InvalidInputError, match="read"):
        open_memory(good()).user("ana").ground(BookFlight, ASKED, read=read)


@pytest.mark.parametrize("policy", ["flag", "drop", "ask"])
def test_what_the_model_may_choose_is_up_to_the_policy(
    open_memory: Any, policy: Any
) -> None:
    """A text that nobody said is the model's own choice."""
    model = good(ToolFill=filling(("flyer_number", "AB1234", "f0", "Book")))
    asked = {"policy": policy, "model_may_choose": ["BookFlight.flyer_number"]}
    call = open_memory(model).user("ana").ground(BookFlight, ASKED, **asked)
    is_sent = policy == "flag"
    assert call.arguments.get("flyer_number") == ("AB1234" if is_sent else None)


@pytest.mark.parametrize("policy", ["flag", "drop", "ask"])
def test_of_an_optional_value_that_is_not_sent(open_memory: Any, policy: Any) -> None:
    model = good(ToolFill=filling(("flyer_number", "AB1234", "f0", "Book")))
    call = open_memory(model).user("ana").ground(BookFlight, ASKED, policy=policy)
    assert "flyer_number" not in call.arguments
    assert bool(call.warnings) is (policy == "flag")
    named = [one.name for one in call.missing if one.name != "destination"]
    assert named == (["flyer_number"] if policy == "ask" else [])


@pytest.mark.parametrize(
    ("value", "fact", "quote", "reason"),
    [
        ("Paris", "f0", "Paris", "does not stand in a source"),
        ("Paris", "f77", "Paris", "does not stand in a source"),
        (
            "Paris",
            "f0",
            "Book that flight",
            "'Paris' is not what was said: “Book that flight”",
        ),
        ("", "f0", "Book", "'' is not what was said: “Book”"),
        (
            ["Book"],
            "f0",
            "Book",
            "does not fit the schema: ['Book'] is not of type 'string'",
        ),
        (None, "f0", "Book", "memory does not say"),
    ],
)
def test_a_value_from_nowhere_is_missing(
    open_memory: Any, value: Any, fact: str, quote: str, reason: str
) -> None:
    model = good(ToolFill=filling(("destination", value, fact, quote)))
    call = open_memory(model).user("ana").ground(BookFlight, ASKED)
    assert "destination" not in call.arguments
    assert [(one.name, one.reason) for one in call.missing] == [("destination", reason)]


@pytest.mark.parametrize(
    "broken", ["seat: aisle", {"no": "arguments"}, {"arguments": "[1]"}, None]
)
def test_an_unusable_answer_is_said_to_be_that(open_memory: Any, broken: Any) -> None:
    call = open_memory(good(ToolFill=broken)).user("ana").ground(BookFlight, ASKED)
    assert [one.reason for one in call.missing] == [
        "the model's answer could not be used"
    ]
    assert call.llm_calls == 2
    assert all(warning.startswith("ToolFill: ") for warning in call.warnings)


def test_words_that_are_no_value_of_the_slot_are_told_where_its_default_is_taken(
    open_memory: Any,
) -> None:
    proposal = filling(("bags", "my usual seat", "f0", "my usual seat"))
    call = open_memory(good(ToolFill=proposal)).user("ana").ground(BookFlight, ASKED)
    assert call.arguments["bags"] == 1
    assert any(
        "bags has its default: does not fit" in warning for warning in call.warnings
    )


def test_a_value_of_the_request_needs_no_quote(open_memory: Any) -> None:
    model = good(ToolFill={"arguments": {"destination": "Rome", "seat": "Aisle"}})
    call = (
        open_memory(model)
        .user("ana")
        .ground(BookFlight, "Fly me to Rome on my aisle seat")
    )
    assert call.arguments["destination"] == "Rome"
    assert call.grounding["destination"].text == "Rome"
    assert call.arguments["seat"] == "Aisle"


def test_no_value_is_quoted_from_a_records_own_text(open_memory: Any) -> None:
    """A model wrote it; the message that it was made of is what the user said."""

    class Exclude(BaseModel):
        plant: str

    memory = open_memory(good(Extraction={"memories": []}))
    ana = memory.user("ana")
    ana.add(
        [{"role": "user", "content": "Lilies kill cats.", "id": "m8"}], session_id="s"
    )
    ana.add_records(
        [{"text": "No white lilies near the cats.", "source_message_ids": ["m8"]}]
    )
    shown = []

    def quoted(words: str) -> Any:
        def fill(prompt: str) -> dict[str, Any]:
            shown.append(prompt)
            source = alias(prompt, "No white lilies near the cats.")
            return filling(("plant", words, source, words))

        return fill

    answers = memory._pipelines.model.answers
    answers["ToolFill"] = quoted("white lilies")
    assert ana.ground(Exclude, "What kills?").arguments == {}
    answers["ToolFill"] = quoted("lilies")
    assert ana.ground(Exclude, "What kills?").arguments == {"plant": "Lilies"}
    assert '"No white lilies near the cats." said: "Lilies kill cats."' in shown[0]


def test_a_record_is_found_by_what_its_attribute_is_called(open_memory: Any) -> None:
    """No word of the request or of the tool stands in it, and much else is talked about."""

    class BookRepair(BaseModel):
        """Take something to a workshop."""

        shop: str

    memory = open_memory(good())
    ana = memory.user("ana")
    for n in range(60):
        said = {
            "role": "user",
            "content": f"Book repair {n}: take it, workshop.",
            "id": f"x{n}",
        }
        ana.add([said], session_id="s")
    ana.add(
        [{"role": "user", "content": "Only Szprycha may touch it.", "id": "m9"}],
        session_id="t",
    )
    record = {"text": "Szprycha is trusted.", "source_message_ids": ["m9"]}
    ana.add_records([{**record, "subject": "user", "attribute": "bike_shop"}])

    def copied(prompt: str) -> dict[str, Any]:
        source = alias(prompt, "Szprycha is trusted.")
        return filling(("shop", "Szprycha", source, "Szprycha"))

    memory._pipelines.model.answers["ToolFill"] = copied
    call = ana.ground(BookRepair, "Book the repair.")
    assert call.arguments == {"shop": "Szprycha"}


def test_contradicting_sources_are_missing_with_both_shown(open_memory: Any) -> None:
    def disagree(prompt: str) -> dict[str, Any]:
        both = (
            taken(prompt, "destination", "planes", "m1"),
            taken(prompt, "destination", "Łódź", "m3"),
        )
        return answer({}, *both, missing=["destination"])

    call = open_memory(good(ToolFill=disagree)).user("ana").ground(BookFlight, ASKED)
    (missing,) = call.missing
    assert missing.reason == "sources disagree"
    assert set(missing.values) == {SAID["m1"], SAID["m3"]}


def test_two_quotes_of_one_source_contradict_nobody(open_memory: Any) -> None:
    def quote(prompt: str) -> dict[str, Any]:
        words = [
            taken(prompt, "destination", one, "m3") for one in ("Łódź", SAID["m3"])
        ]
        return answer({}, *words, missing=["destination"])

    call = open_memory(good(ToolFill=quote)).user("ana").ground(BookFlight, ASKED)
    assert [one.reason for one in call.missing] == ["memory does not say"]


def test_what_is_no_longer_true_fills_nothing(open_memory: Any) -> None:
    shown = []

    def aisle(prompt: str) -> dict[str, Any]:
        shown.append(prompt)
        return answer({"seat": "Aisle"}, taken(prompt, "seat", "aisle", "m1"))

    memory = open_memory(good(ToolFill=aisle))
    ana = memory.user("ana")
    old = {"text": "The user takes an aisle seat.", "source_message_ids": ["m1"]}
    new = {"text": "The user takes a window seat.", "source_message_ids": ["m6"]}
    ana.add_records([{**old, "record_id": "old"}])
    ana.add_records([{**new, "supersedes": ["old"]}])
    call = ana.ground(BookFlight, f"{ASKED} planes always take")
    assert call.arguments["seat"] == "Window"
    assert call.grounding["seat"].type == "default"
    lines = "".join(shown).splitlines()
    assert any(
        re.fullmatch(r"Now: \w+day \d{4}-\d\d-\d\d \d\d:\d\d", line) for line in lines
    )
    [outdated] = [
        line for line in lines if '"The user takes an aisle seat." said: ' in line
    ]
    assert (
        '(no longer true since 2025-03-01: now "The user takes a window seat.")'
        in outdated
    )
    assert any(line.endswith(f'2025-03-01 user "{SAID["m3"]}"') for line in lines)


def test_an_optional_object_without_what_it_needs_is_incomplete(
    open_memory: Any,
) -> None:
    def only_phone(prompt: str) -> dict[str, Any]:
        return filling(("contact.phone", "June", alias(prompt, SAID["m3"]), "in June"))

    schema = tool_spec(BookFlight).schema
    plain = {**schema["properties"], "contact": Contact.model_json_schema()}
    tool = {"name": "book", "parameters": {**schema, "properties": plain}}
    call = open_memory(good(ToolFill=only_phone)).user("ana").ground(tool, ASKED)
    assert call.arguments["contact"] == {"phone": "June"}
    assert [one.name for one in call.missing] == ["destination", "contact.email"]


def test_an_optional_object_that_would_hold_defaults_alone_is_not_sent(
    open_memory: Any,
) -> None:
    contact = {
        "type": "object",
        "properties": {"email": {"type": "string"}, "kind": {"default": "home"}},
        "required": ["email"],
    }
    properties = {"destination": {"type": "string"}, "contact": contact}
    tool = {"name": "book", "parameters": {"type": "object", "properties": properties}}
    to_rome = good(ToolFill={"arguments": {"destination": "Rome"}})
    call = open_memory(to_rome).user("ana").ground(tool, "Fly me to Rome")
    assert call.arguments == {"destination": "Rome"}
    assert call.grounding.keys() == {"destination"}
    assert call.missing == []


def test_of_several_tools_one_is_chosen(open_memory: Any) -> None:
    def choose(prompt: str) -> dict[str, Any]:
        found = re.search(r'^(t\d+): "BookFlight', prompt, re.MULTILINE)
        assert found
        return {"tool": found[1]}

    hotel = {"name": "book_hotel", "description": "Book a hotel", "parameters": {}}
    model = good(ToolChoice=choose)
    call = open_memory(model).user("ana").ground([hotel, BookFlight], ASKED)
    assert call.name == "BookFlight"
    assert calls(model) == ["ToolChoice", "ToolFill"]
    assert call.llm_calls == 2


def test_a_choice_that_cannot_be_used_is_the_likeliest_tool(open_memory: Any) -> None:
    hotel = {
        "name": "hotel_room",
        "description": "A bed for the night",
        "parameters": {},
    }
    model = good(ToolChoice={"tool": "t99"})
    call = (
        open_memory(model)
        .user("ana")
        .ground([hotel, BookFlight], "Book a flight to a city")
    )
    assert call.name == "BookFlight"


def test_a_tool_without_arguments_costs_no_call(open_memory: Any) -> None:
    model = good()
    call = open_memory(model).user("ana").ground({"name": "ping"}, "ping it")
    assert (call.name, call.arguments, call.missing, calls(model)) == (
        "ping",
        {},
        [],
        [],
    )
