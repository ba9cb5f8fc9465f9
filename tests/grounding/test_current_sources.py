"""Only what is true now fills a call, and only what is still there when it is put together."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from langmem_graph.grounding.tool_schema import tool_spec
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from tests.support.models import AnswersBySchema

SAID = {
    "a": "My seat is 12A and I take 3 bags.",
    "b": "From now on my seat is 14C and I take 2 bags.",
    "c": "Ship to Jan Kowalski, I am Ana, phone 555 123 4567.",
}
LATER = (datetime.now(UTC) + timedelta(days=30)).isoformat()
FOLLOWS = {"verdicts": [{"number": 1, "follows": True}]}
TOLD: dict[str, Any] = {}


class Trip(BaseModel):
    """Book a trip with a seat and bags."""

    seat: str | None = None
    bags: int | None = None


def fill(prompt: str) -> Any:
    """What the test says."""
    answer = TOLD["answer"]
    return answer(prompt) if callable(answer) else answer


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    settings = Settings(
        extraction=ExtractionSettings(debounce_seconds=3_600),
        storage=StorageSettings(closing_seconds=0.01),
    )
    model = AnswersBySchema(ToolFill=fill, Verdicts=FOLLOWS)
    with Memory(tmp_path / "m", model=model, embeddings="hash", settings=settings) as opened:
        rows = [{"role": "user", "content": text, "id": own} for own, text in SAID.items()]
        opened.user("ana").add(rows, session_id="s", at="2025-03-01")
        yield opened


def replaced(memory: Memory, **new: Any) -> None:
    """Seat and bags as they were, and as they are or will be."""
    records = [
        {"text": "The seat is 12A, with 3 bags.", "source_message_ids": ["a"], "record_id": "old"},
        {"text": "The seat is 14C, with 2 bags.", "source_message_ids": ["b"], "record_id": "new",
         "supersedes": ["old"], **new},
    ]  # fmt: skip
    for record in records:
        assert not memory.user("ana").add_records([record]).rejected


def answered(memory: Memory, tool: Any, answer: Any, request: str = "Book with seat, bags") -> Any:
    TOLD["answer"] = answer
    return memory.user("ana").ground(tool, request)


def showing(prompt: str, words: str) -> list[str]:
    """What the prompt calls the sources that show the words."""
    found = re.findall(rf"^(f[1-9]\d*): .*{re.escape(words)}", prompt, re.MULTILINE)
    assert found, f"{words!r} is not shown:\n{prompt}"
    return found[:4]


@pytest.mark.parametrize(
    ("slot", "how", "value"), [("bags", "infer", "3"), ("seat", "infer", "12A")]
)
def test_what_was_replaced_is_no_ground_for_a_conclusion(
    memory: Memory, slot: str, how: str, value: str
) -> None:
    replaced(memory)

    def old(prompt: str) -> Any:
        sources = showing(prompt, "12A")
        return {"slots": [{"slot": slot, "how": how, "value": value, "sources": sources}]}

    assert answered(memory, Trip, old).arguments == {}


def test_what_was_replaced_is_no_rival(memory: Memory) -> None:
    replaced(memory)

    def rivals(prompt: str) -> Any:
        both = [showing(prompt, "12A")[0], showing(prompt, "14C")[0]]
        return {"slots": [{"slot": "seat", "how": "conflict", "sources": both}]}

    call = answered(memory, Trip, rivals)
    assert not [one for one in call.missing if "12A" in str(one.values)]


def test_words_that_another_record_of_their_message_has_outlived(memory: Memory) -> None:
    bags = {"text": "Takes bags along on trips.", "source_message_ids": ["a"]}
    assert not memory.user("ana").add_records([bags]).rejected
    replaced(memory)

    def seat(prompt: str) -> Any:
        sources = showing(prompt, "Takes bags along")
        return {"slots": [{"slot": "seat", "how": "copy", "words": "12A", "sources": sources}]}

    assert answered(memory, Trip, seat).arguments == {}


@pytest.mark.parametrize(("words", "arguments"), [("12A", {"seat": "12A"}), ("14C", {})])
def test_what_will_be_true_is_not_yet(memory: Memory, words: str, arguments: Any) -> None:
    replaced(memory, valid_from=LATER)

    def seat(prompt: str) -> Any:
        sources = showing(prompt, f"is {words}")
        return {"slots": [{"slot": "seat", "how": "copy", "words": words, "sources": sources}]}

    assert answered(memory, Trip, seat).arguments == arguments


@pytest.mark.parametrize("how", ["forget", "replace"])
def test_what_is_forgotten_while_the_model_answers_fills_nothing(memory: Memory, how: str) -> None:
    ana = memory.user("ana")
    ana.add_records([{"text": "The seat is 12A.", "source_message_ids": ["a"], "record_id": "old"}])

    def late(prompt: str) -> Any:
        source = showing(prompt, "The seat is 12A.")
        if how == "forget":
            ana.forget(message="a")
        else:
            new = {"text": "The seat is 14C.", "source_message_ids": ["b"], "supersedes": ["old"]}
            assert not ana.add_records([new]).rejected
        return {"slots": [{"slot": "seat", "how": "copy", "words": "12A", "sources": source}]}

    call = answered(memory, Trip, late)
    assert call.arguments == {}
    assert call.warnings == ["seat is left out: was forgotten or changed meanwhile"]


def test_what_an_agent_put_into_a_call_is_no_source(memory: Memory) -> None:
    """Its guess would come back as what memory says."""
    guess = {"name": "Trip", "args": {"seat": "30F", "bags": 9}, "id": "c"}
    rows = [
        {"role": "assistant", "content": "", "tool_calls": [guess], "id": "call"},
        {"role": "assistant", "content": "Booked.", "id": "done"},
        {"role": "user", "content": '[calls {"seat": "44K"}]', "id": "typed"},
    ]
    memory.user("ana").add(rows, session_id="earlier")

    shown: list[str] = []

    def copied(prompt: str) -> Any:
        shown.append(prompt)
        every = re.findall(r"^(f\d+):", prompt, re.MULTILINE)
        return {"slots": [{"slot": "seat", "how": "copy", "words": "30F", "sources": every}]}

    assert answered(memory, Trip, copied, "Book my trip with a seat and bags").arguments == {}
    assert "30F" not in shown[0]
    assert "44K" in shown[0]  # a user's own words, whatever they look like


def test_the_model_sees_who_said_it(memory: Memory) -> None:
    told = {"role": "tool", "name": "book", "content": "booked seat 30F", "tool_call_id": "c"}
    memory.user("ana").add([told], session_id="earlier")

    shown: list[str] = []
    answered(memory, Trip, lambda prompt: shown.append(prompt) or {})
    assert re.search(r'^f\d+: 2025-03-01 user "My seat is 12A', shown[0], re.MULTILINE)
    assert re.search(r'^f\d+: \S+ book "booked seat 30F"', shown[0], re.MULTILINE)


def test_what_is_changed_while_the_model_answers_is_not_quoted_from_its_message(
    memory: Memory,
) -> None:
    ana = memory.user("ana")
    old = [
        {"text": "The seat is 12A.", "source_message_ids": ["a"], "record_id": "old"},
        {"text": "Ana takes 3 bags.", "source_message_ids": ["a"]},
    ]
    assert not ana.add_records(old).rejected

    def late(prompt: str) -> Any:
        bags = showing(prompt, "Ana takes 3 bags.")
        new = {"text": "The seat is 14C.", "source_message_ids": ["b"], "supersedes": ["old"]}
        assert not ana.add_records([new]).rejected
        copied = {"how": "copy", "sources": bags}
        return {
            "slots": [
                {"slot": "seat", "words": "12A", **copied},
                {"slot": "bags", "words": "3", **copied},
            ]
        }

    call = answered(memory, Trip, late)
    assert call.arguments == {"bags": 3}
    assert call.warnings == ["seat is left out: was forgotten or changed meanwhile"]


def test_words_that_a_model_wrote_into_an_object_were_not_copied(memory: Memory) -> None:
    tool = {"name": "ship", "parameters": {"properties": {"to": {"type": "object"}}}}

    def retyped(prompt: str) -> Any:
        to = '{"name": "Jon Kowalsky"}'
        sources = showing(prompt, "Jan Kowalski")
        return {"slots": [{"slot": "to", "how": "infer", "value": to, "sources": sources}]}

    assert answered(memory, tool, retyped, "Ship it").grounding["to"].type == "inferred"


# --- objects in objects --------------------------------------------------------------------------


class Contact(BaseModel):
    email: str
    phone: str | None = None


class Guest(BaseModel):
    name: str
    contact: Contact | None = None


class Reserve(BaseModel):
    """Reserve for a guest."""

    guest: Guest


class Return(BaseModel):
    cabin: str = "economy"
    flexible: bool = False


class Fly(BaseModel):
    """Fly."""

    to: str
    back: Return | None = None


def test_a_broken_part_of_a_required_object_is_left_out(memory: Memory) -> None:
    def both(prompt: str) -> Any:
        copied = {"how": "copy", "sources": showing(prompt, "I am Ana")}
        name = {"slot": "guest.name", "words": "Ana", **copied}
        return {"slots": [name, {"slot": "guest.contact.phone", "words": "555 123 4567", **copied}]}

    call = answered(memory, Reserve, both, "Reserve for Ana")
    assert call.arguments == {"guest": {"name": "Ana"}}
    Draft202012Validator(tool_spec(Reserve).schema).validate(call.arguments)
    assert call.warnings[0].startswith("guest.contact is left out")
    assert "guest.contact.phone" not in call.grounding


def test_defaults_alone_make_no_optional_object(memory: Memory) -> None:
    oslo = {"slot": "to", "how": "copy", "words": "Oslo", "sources": ["f0"]}
    call = answered(memory, Fly, {"slots": [oslo]}, "Fly to Oslo one way")
    assert call.arguments == {"to": "Oslo"}
    assert set(call.grounding) == {"to"}


def test_defaults_complete_an_object_that_is_grounded(memory: Memory) -> None:
    oslo = {"slot": "to", "how": "copy", "words": "Oslo", "sources": ["f0"]}
    first = {"slot": "back.cabin", "how": "copy", "words": "first", "sources": ["f0"]}
    call = answered(memory, Fly, {"slots": [oslo, first]}, "Fly to Oslo, back in first")
    assert call.arguments == {"to": "Oslo", "back": {"cabin": "first", "flexible": False}}


def test_properties_with_a_dot_are_told_from_parts(memory: Memory) -> None:
    flat = {"type": "string"}
    nested = {"type": "object", "properties": {"name": flat}}
    properties = {"guest.name": flat, "guest": nested}
    tool = {"name": "book", "parameters": {"properties": properties}}
    oslo = {"slot": "guest.name", "how": "copy", "words": "Oslo", "sources": ["f0"]}
    assert answered(memory, tool, {"slots": [oslo]}, "Oslo").arguments == {
        "guest": {"name": "Oslo"}
    }


def test_tools_of_many_arguments(memory: Memory) -> None:
    names = [f"p{n}" for n in range(120)]
    properties = {name: {"type": "string"} for name in names}
    tool = {"name": "big", "parameters": {"properties": properties, "required": ["p0"]}}
    oslo = {"how": "copy", "words": "Oslo", "sources": ["f0"]}
    rest = [{"slot": name, "how": "missing"} for name in names[1:]]
    call = answered(memory, tool, {"slots": [{"slot": "p0", **oslo}, *rest]}, "Fly to Oslo")
    assert call.arguments == {"p0": "Oslo"}


def test_lists_that_were_concluded_stay_flat(memory: Memory) -> None:
    tool = {"name": "t", "parameters": {"properties": {"bags": {"type": "array",
            "items": {"type": "integer"}}}}}  # fmt: skip

    def listed(prompt: str) -> Any:
        sources = showing(prompt, "2 bags")
        return {
            "slots": [
                {"slot": "bags", "how": "infer", "value": "[2]", "sources": sources},
                {"slot": "bags", "how": "copy", "words": "2", "sources": sources},
            ]
        }

    assert answered(memory, tool, listed).arguments == {"bags": [2, 2]}


# --- the call as a whole -------------------------------------------------------------------------

TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
BOTH: dict[str, Any] = {"properties": {"a": TEXT, "b": TEXT}}


@pytest.mark.parametrize(
    ("parameters", "slot", "missing"),
    [
        ({**BOTH, "dependentRequired": {"a": ["b"]}}, "a", ["b"]),
        ({**BOTH, "anyOf": [{"required": ["c"]}, {"required": ["b"]}]}, "a", ["c", "b"]),
        ({**BOTH, "allOf": [{"required": ["b"]}]}, "a", ["b"]),
        ({**BOTH, "required": ["elsewhere"]}, "a", ["elsewhere"]),
        ({**BOTH, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, "a", ["b"]),
        ({"properties": {"o": OBJECT}, "required": ["o"]}, "", ["o"]),
        ({"properties": {"o": {**OBJECT, "minProperties": 2}}, "required": ["o"]}, "o.a", ["o"]),
        ({"properties": {"a": False, "b": TEXT}, "required": ["a"]}, "a", ["a"]),
        ({"properties": {"a": {"type": "integer", "default": "x"}}, "required": ["a"]}, "", ["a"]),
        ({"properties": {"o": {**OBJECT, "required": ["a"]}}, "required": ["o"]}, "", ["o.a"]),
        ({"properties": {"o": {**OBJECT, "minProperties": 2}}}, "o.a", []),
    ],
)
def test_a_call_that_its_schema_refuses_says_what_is_missing(
    memory: Memory, parameters: Any, slot: str, missing: list[str]
) -> None:
    oslo = {"slot": slot, "how": "copy", "words": "Oslo", "sources": ["f0"]}
    call = answered(memory, {"name": "t", "parameters": parameters}, {"slots": [oslo]}, "Oslo")
    assert [one.name for one in call.missing] == missing
    assert missing or Draft202012Validator(parameters).is_valid(call.arguments)


def test_arguments_that_do_not_go_together_are_told(memory: Memory) -> None:
    one_of = [{"required": ["a"]}, {"required": ["b"]}]
    tool = {"name": "t", "parameters": {**BOTH, "oneOf": one_of}}
    oslo = {"how": "copy", "words": "Oslo", "sources": ["f0"]}
    call = answered(memory, tool, {"slots": [{"slot": name, **oslo} for name in "ab"]}, "Oslo")
    assert call.warnings[0].startswith("the arguments do not fit together")


def test_what_was_replaced_is_not_concluded_from_the_rest_of_its_message(memory: Memory) -> None:
    replaced(memory)
    seat = {"text": "Ana sits by the aisle.", "source_message_ids": ["a"]}
    assert not memory.user("ana").add_records([seat]).rejected

    def concluded(prompt: str) -> Any:
        sources = showing(prompt, "Ana sits by the aisle.")
        bags = {"slot": "bags", "how": "infer", "value": "3", "sources": sources}
        return {"slots": [bags, {**bags, "slot": "seat", "value": "12A"}]}

    call = answered(memory, Trip, concluded)
    assert call.arguments == {}
    assert all("no longer true" in warning for warning in call.warnings)
