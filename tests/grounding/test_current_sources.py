"""Only what is true now fills a call, and only what is still there when it is put together."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from tests.conftest import let_go
from tests.support.flights import filling
from tests.support.models import AnswersBySchema

SAID = {
    "a": "My seat is 12A and I take 3 bags.",
    "b": "From now on my seat is 14C and I take 2 bags.",
    "c": "Ship to Jan Kowalski, I am Ana, phone 555 123 4567.",
}
LATER = (datetime.now(UTC) + timedelta(days=30)).isoformat()
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
    model = AnswersBySchema(ToolFill=fill)
    opened = Memory(tmp_path / "m", model=model, embeddings="hash", settings=settings)
    rows = [{"role": "user", "content": text, "id": own} for own, text in SAID.items()]
    opened.user("ana").add(rows, session_id="s", at="2025-03-01")
    yield opened
    let_go(opened)


def replaced(memory: Memory, **new: Any) -> None:
    """Seat and bags as they were, and as they are or will be."""
    records = [
        {"text": "The seat is 12A, with 3 bags.", "source_message_ids": ["a"], "record_id": "old"},
        {"text": "The seat is 14C, with 2 bags.", "source_message_ids": ["b"], "record_id": "new",
         "supersedes": ["old"], **new},
    ]  # fmt: skip
    for record in records:
        assert not memory.user("ana").add_records([record]).rejected


def answered(
    memory: Memory, tool: Any, answer: Any, request: str = "Book with seat, bags"
) -> Any:
    TOLD["answer"] = answer
    return memory.user("ana").ground(tool, request)


def showing(prompt: str, words: str) -> list[str]:
    """What the prompt calls the sources that show the words."""
    found = re.findall(rf"^(f[1-9]\d*): .*{re.escape(words)}", prompt, re.MULTILINE)
    assert found, f"{words!r} is not shown:\n{prompt}"
    return found[:4]


@pytest.mark.parametrize(("slot", "value"), [("bags", 3), ("seat", "12A")])
@pytest.mark.parametrize("quote", ["The seat is 12A, with 3 bags.", None])
def test_what_was_replaced_is_no_source(
    memory: Memory, slot: str, value: Any, quote: str | None
) -> None:
    replaced(memory)

    def old(prompt: str) -> Any:
        return filling((slot, value, showing(prompt, "12A"), quote or str(value)))

    assert answered(memory, Trip, old).arguments == {}


def test_what_was_replaced_is_no_rival(memory: Memory) -> None:
    replaced(memory)

    def rivals(prompt: str) -> Any:
        cited = [(showing(prompt, one)[0], one) for one in ("12A", "14C")]
        sources = [{"path": "seat", "fact": fact, "quote": one} for fact, one in cited]
        return {"arguments": {}, "sources": sources, "missing": ["seat"]}

    call = answered(memory, Trip, rivals)
    assert not [one for one in call.missing if "12A" in str(one.values)]


def test_words_that_another_record_of_their_message_has_outlived(
    memory: Memory,
) -> None:
    bags = {"text": "Takes bags along on trips.", "source_message_ids": ["a"]}
    assert not memory.user("ana").add_records([bags]).rejected
    replaced(memory)

    def seat(prompt: str) -> Any:
        return filling(("seat", "12A", showing(prompt, "Takes bags along"), "12A"))

    assert answered(memory, Trip, seat).arguments == {}


@pytest.mark.parametrize(
    ("words", "arguments"), [("12A", {"seat": "12A"}), ("14C", {})]
)
def test_what_will_be_true_is_not_yet(
    memory: Memory, words: str, arguments: Any
) -> None:
    replaced(memory, valid_from=LATER)

    def seat(prompt: str) -> Any:
        return filling(("seat", words, showing(prompt, f"is {words}"), words))

    assert answered(memory, Trip, seat).arguments == arguments


@pytest.mark.parametrize("how", ["forget", "replace"])
def test_what_is_forgotten_while_the_model_answers_fills_nothing(
    memory: Memory, how: str
) -> None:
    ana = memory.user("ana")
    ana.add_records(
        [{"text": "The seat is 12A.", "source_message_ids": ["a"], "record_id": "old"}]
    )

    def late(prompt: str) -> Any:
        source = showing(prompt, "The seat is 12A.")
        if how == "forget":
            ana.forget(message="a")
        else:
            new = {
                "text": "The seat is 14C.",
                "source_message_ids": ["b"],
                "supersedes": ["old"],
            }
            assert not ana.add_records([new]).rejected
        return filling(("seat", "12A", source, "12A"))

    call = answered(memory, Trip, late)
    assert call.arguments == {}
    assert call.warnings == ["seat is left out: was forgotten or changed meanwhile"]


@pytest.mark.parametrize("how", ["forget", "erase"])
def test_words_whose_id_another_text_has_meanwhile_fill_nothing(
    memory: Memory, how: str
) -> None:
    ana = memory.user("ana")

    def late(prompt: str) -> Any:
        source = showing(prompt, SAID["a"])
        ana.forget(message="a") if how == "forget" else ana.erase()
        edited = {"role": "user", "content": "My seat is up to you.", "id": "a"}
        ana.add([edited], session_id="s")
        return filling(("seat", "12A", source, "12A"))

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
        return filling(("seat", "30F", every, "30F"))

    assert (
        answered(memory, Trip, copied, "Book my trip with a seat and bags").arguments
        == {}
    )
    assert "30F" not in shown[0]
    assert "44K" in shown[0]  # a user's own words, whatever they look like


def test_the_model_sees_who_said_it(memory: Memory) -> None:
    told = {
        "role": "tool",
        "name": "book",
        "content": "booked seat 30F",
        "tool_call_id": "c",
    }
    memory.user("ana").add([told], session_id="earlier")

    shown: list[str] = []
    answered(memory, Trip, lambda prompt: shown.append(prompt) or {})
    assert re.search(r'^f\d+: 2025-03-01 user "My seat is 12A', shown[0], re.MULTILINE)
    marked = r"^f\d+: \S+ \(not the user's words\) book \"booked seat 30F\""
    assert re.search(marked, shown[0], re.MULTILINE)


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
        new = {
            "text": "The seat is 14C.",
            "source_message_ids": ["b"],
            "supersedes": ["old"],
        }
        assert not ana.add_records([new]).rejected
        return filling(("seat", "12A", bags, "12A"), ("bags", 3, bags, "3"))

    call = answered(memory, Trip, late)
    assert call.arguments == {"bags": 3}
    assert call.warnings == ["seat is left out: was forgotten or changed meanwhile"]


def test_words_that_a_model_wrote_into_an_object_are_not_sent(memory: Memory) -> None:
    tool = {"name": "ship", "parameters": {"properties": {"to": {"type": "object"}}}}

    def retyped(prompt: str) -> Any:
        source = showing(prompt, "Jan Kowalski")
        return filling(
            ("to.name", "Jon Kowalsky", source, "Jan Kowalski"),
            ("to.phone", "555 123 4567", source, "phone 555 123 4567"),
            ("to.vip", "Ana", source, "I am Ana"),
        )

    call = answered(memory, tool, retyped, "Ship it")
    assert call.arguments == {"to": {"phone": "555 123 4567"}}, (
        "no word says that somebody is a vip"
    )


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


OSLO = ("to", "Oslo", "f0", "Oslo")


class Fly(BaseModel):
    """Fly."""

    to: str
    back: Return | None = None


def test_an_object_keeps_what_is_grounded_and_lacks_the_rest(memory: Memory) -> None:
    def both(prompt: str) -> Any:
        cited = showing(prompt, "I am Ana")
        phone = ("guest.contact.phone", "555 123 4567", cited, "555 123 4567")
        return filling(("guest.name", "Ana", cited, "Ana"), phone)

    call = answered(memory, Reserve, both, "Reserve for Ana")
    assert call.arguments == {
        "guest": {"name": "Ana", "contact": {"phone": "555 123 4567"}}
    }
    assert [one.name for one in call.missing] == ["guest.contact.email"]
    assert "guest.contact.phone" in call.grounding


class Party(BaseModel):
    """Book for several."""

    guests: list[Guest] | None = None


def test_an_item_keeps_what_is_grounded_and_its_place(memory: Memory) -> None:
    guests = [
        {"name": "Nobody", "contact": {"email": "no@body.example"}},
        {"name": "Nobody", "contact": {"phone": "555 123 4567"}},
        {"name": "Ana"},
    ]

    def three(prompt: str) -> Any:
        cited = showing(prompt, "I am Ana")[0]
        places = [("0.name", "Ana"), ("1.name", "Ana"), ("2.name", "Ana")]
        quotes = [*places, ("1.contact.phone", "555 123 4567")]
        sources = [
            {"path": f"guests.{p}", "fact": cited, "quote": q} for p, q in quotes
        ]
        return {"arguments": {"guests": guests}, "sources": sources}

    call = answered(memory, Party, three, "Book for us")
    assert call.arguments == {
        "guests": [{"contact": {"phone": "555 123 4567"}}, {"name": "Ana"}]
    }
    assert set(call.grounding) == {"guests.0.contact.phone", "guests.1.name"}
    lacking = {one.name for one in call.missing}
    assert lacking == {"guests", "guests.0.name", "guests.0.contact.email"}


def test_a_part_that_does_not_fit_is_left_out(memory: Memory) -> None:
    inner = {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "minProperties": 2,
    }
    outer = {
        "type": "object",
        "properties": {"inner": inner},
        "required": ["inner", "more"],
    }
    tool = {
        "name": "t",
        "parameters": {"type": "object", "properties": {"outer": outer}},
    }
    call = answered(
        memory, tool, filling(("outer.inner.a", "Oslo", "f0", "Oslo")), "Oslo"
    )
    assert call.arguments == {}
    assert call.warnings[0].startswith("outer is left out")


def test_defaults_alone_make_no_optional_object(memory: Memory) -> None:
    call = answered(memory, Fly, filling(OSLO), "Fly to Oslo one way")
    assert call.arguments == {"to": "Oslo"}
    assert set(call.grounding) == {"to"}


def test_defaults_complete_an_object_that_is_grounded(memory: Memory) -> None:
    first = ("back.cabin", "first", "f0", "back in first")
    call = answered(memory, Fly, filling(OSLO, first), "Fly to Oslo, back in first")
    assert call.arguments == {
        "to": "Oslo",
        "back": {"cabin": "first", "flexible": False},
    }


def test_properties_with_a_dot_are_told_from_parts(memory: Memory) -> None:
    flat = {"type": "string"}
    nested = {"type": "object", "properties": {"name": flat}}
    properties = {"guest.name": flat, "guest": nested}
    tool = {"name": "book", "parameters": {"properties": properties}}
    cited = [{"path": "guest.name", "fact": "f0", "quote": "Oslo"}]
    for arguments in ({"guest": {"name": "Oslo"}}, {"guest.name": "Oslo"}):
        proposal = {"arguments": arguments, "sources": cited}
        assert answered(memory, tool, proposal, "Oslo").arguments == arguments


def test_tools_of_many_arguments(memory: Memory) -> None:
    names = [f"p{n}" for n in range(120)]
    properties = {name: {"type": "string"} for name in names}
    tool = {"name": "big", "parameters": {"properties": properties, "required": ["p0"]}}
    oslo = ("p0", "Oslo", "f0", "to Oslo")
    call = answered(memory, tool, filling(oslo, missing=names[1:]), "Fly to Oslo")
    assert call.arguments == {"p0": "Oslo"}


# --- the call as a whole -------------------------------------------------------------------------

TEXT: dict[str, Any] = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
BOTH: dict[str, Any] = {"properties": {"a": TEXT, "b": TEXT}}


@pytest.mark.parametrize(
    ("parameters", "slot", "missing"),
    [
        ({**BOTH, "dependentRequired": {"a": ["b"]}}, "a", ["b"]),
        (
            {**BOTH, "anyOf": [{"required": ["c"]}, {"required": ["b"]}]},
            "a",
            ["c", "b"],
        ),
        ({**BOTH, "allOf": [{"required": ["b"]}]}, "a", ["b"]),
        ({**BOTH, "required": ["elsewhere"]}, "a", ["elsewhere"]),
        ({**BOTH, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, "a", ["b"]),
        ({"properties": {"o": OBJECT}, "required": ["o"]}, "", ["o"]),
        (
            {"properties": {"o": {**OBJECT, "minProperties": 2}}, "required": ["o"]},
            "o.a",
            ["o"],
        ),
        ({"properties": {"a": False, "b": TEXT}, "required": ["a"]}, "a", ["a"]),
        (
            {
                "properties": {"a": {"type": "integer", "default": "x"}},
                "required": ["a"],
            },
            "",
            ["a"],
        ),
        (
            {"properties": {"o": {**OBJECT, "required": ["a"]}}, "required": ["o"]},
            "",
            ["o.a"],
        ),
        ({"properties": {"o": {**OBJECT, "minProperties": 2}}}, "o.a", []),
    ],
)
def test_a_call_that_its_schema_refuses_says_what_is_missing(
    memory: Memory, parameters: Any, slot: str, missing: list[str]
) -> None:
    oslo = filling((slot or "none", "Oslo", "f0", "Oslo"))
    call = answered(memory, {"name": "t", "parameters": parameters}, oslo, "Oslo")
    assert [one.name for one in call.missing] == missing
    assert missing or Draft202012Validator(parameters).is_valid(call.arguments)


def test_arguments_that_do_not_go_together_are_told(memory: Memory) -> None:
    one_of = [{"required": ["a"]}, {"required": ["b"]}]
    tool = {"name": "t", "parameters": {**BOTH, "oneOf": one_of}}
    oslo = [(name, "Oslo", "f0", "Oslo") for name in "ab"]
    call = answered(memory, tool, filling(*oslo), "Oslo")
    assert call.warnings[0].startswith("the arguments do not fit together")


def test_what_was_replaced_is_not_concluded_from_the_rest_of_its_message(
    memory: Memory,
) -> None:
    replaced(memory)
    seat = {"text": "Ana sits by the aisle.", "source_message_ids": ["a"]}
    assert not memory.user("ana").add_records([seat]).rejected

    def concluded(prompt: str) -> Any:
        sources = showing(prompt, "Ana sits by the aisle.")
        return filling(("bags", 3, sources, "3"), ("seat", "12A", sources, "12A"))

    call = answered(memory, Trip, concluded)
    assert call.arguments == {}
    assert all("no longer true" in warning for warning in call.warnings)


def test_a_source_that_no_longer_holds_is_shown_with_its_label(memory: Memory) -> None:
    replaced(memory)
    prompts: list[str] = []

    def look(prompt: str) -> Any:
        prompts.append(prompt)
        return {"arguments": {}}

    answered(memory, Trip, look)
    label = '(no longer true since 2025-03-01: now "The seat is 14C, with 2 bags.")'
    (line,) = (
        one for one in prompts[0].splitlines() if one.startswith("f") and "12A" in one
    )
    assert label in line
    assert not any(label in one for one in prompts[0].splitlines() if "12A" not in one)


def test_a_value_that_a_later_statement_repeats_is_that_ones(memory: Memory) -> None:
    """The bags are 7 in what no longer holds, and in what does."""
    ana = memory.user("ana")
    said = {
        "old": "My cabin is 12A, with 7 bags.",
        "new": "My cabin is 14C, with 7 bags.",
    }
    for name, text in said.items():
        ana.add([{"role": "user", "content": text, "id": name}], session_id=name)
        row = {"text": text, "source_message_ids": [name], "record_id": name}
        older = {"supersedes": ["old"]} if name == "new" else {}
        assert not ana.add_records([row | older]).rejected

    def seven(prompt: str) -> Any:
        return filling(("bags", 7, showing(prompt, "is 14C"), "with 7 bags"))

    assert answered(memory, Trip, seven).arguments == {"bags": 7}

    def quoted(prompt: str) -> Any:
        both = [*showing(prompt, "is 12A"), *showing(prompt, "is 14C")]
        return filling(("bags", 7, both, "7"))

    assert answered(memory, Trip, quoted).arguments == {"bags": 7}
