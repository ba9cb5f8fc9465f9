"""Values in texts: found by their form, held by a source only as whole tokens."""

import base64
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics.value_patterns import find_values, raws
from langmem_graph.values.matching import tokens


def held(raw: str, source: str) -> bool:
    """Whether a source has a value as a whole token, or as a value of its own."""
    whole = bool(raw.strip()) and any(tokens(re.compile(re.escape(raw)), source))
    return whole or raw in raws(source)


def found(text: str) -> list[tuple[str, str]]:
    return [(value.type, value.raw) for value in find_values(text)]


@pytest.mark.parametrize(
    ("text", "kind", "raw", "normalized"),
    [
        ("about 1,200.50 in all", "number", "1,200.50", "1200.50"),
        ("it weighs 5 kg now", "number", "5 kg", "5 kg"),
        ("at -5 °C outside", "number", "-5 °C", "-5 °C"),
        ("12\u00a0345 visitors", "number", "12\u00a0345", "12345"),
        ("１２人", "number", "１２", "12"),
        ("pays $1,200 a month", "price", "$1,200", "1200 $"),
        ("kostet 1.200,50 € im Jahr", "price", "1.200,50 €", "1200.50 EUR"),
        ("for 40 dollars", "price", "40 dollars", "40 DOLLARS"),
        ("on May 7, 2025.", "date", "May 7, 2025", "2025-05-07"),
        ("on the 7th of May 2025", "date", "7th of May 2025", "2025-05-07"),
        ("am 03.05.2025 um", "date", "03.05.2025", "2025-05-03"),
        ("on 3/5/2025", "date", "3/5/2025", "3/5/2025"),
        ("５月３日に", "date", "５月３日", "--05-03"),
        ("2025年5月3日", "date", "2025年5月3日", "2025-05-03"),
        ("the 31 June 2025", "date", "31 June 2025", "31 june 2025"),
        (
            "since 2024-01-15T10:00:00Z",
            "date",
            "2024-01-15T10:00:00Z",
            "2024-01-15T10:00:00Z",
        ),
        ("in May 2024", "date", "May 2024", "2024-05"),
        ("at 7:30 p.m. sharp", "time", "7:30 p.m.", "19:30"),
        ("at 12am", "time", "12am", "00:00"),
        ("um 14 Uhr", "time", "14 Uhr", "14:00"),
        ("flight LH 454 to", "identifier", "LH 454", "LH454"),
        ("order number 4711 is late", "identifier", "4711", "4711"),
        ("room B-204, please", "identifier", "B-204", "B204"),
        ("upgrade to v2.3.1.", "identifier", "v2.3.1", "V2.3.1"),
        ("runs 10.0.2 now", "identifier", "10.0.2", "10.0.2"),
        ("pin 0042", "identifier", "0042", "0042"),
        (
            "to DE89 3704 0044 0532 0130 00 please",
            "identifier",
            "DE89 3704 0044 0532 0130 00",
            "DE89370400440532013000",
        ),
        ("(see https://x.org/a_(b)?q=1)", "url", "https://x.org/a_(b)?q=1", None),
        ("mail a.b+c@Mail.example.org!", "email", "a.b+c@Mail.example.org", None),
        ("call +49 (0)30 1234-567", "phone", "+49 (0)30 1234-567", "+490301234567"),
        ("call (415) 555-2671", "phone", "(415) 555-2671", "4155552671"),
        ("at 221B Baker Street, Apt 4", "address", "221B Baker Street, Apt 4", None),
        ("in der Hauptstraße 12a", "address", "Hauptstraße 12a", None),
        ("au 12 Rue de la Paix", "address", "12 Rue de la Paix", None),
    ],
)
def test_each_kind_is_found(
    text: str, kind: str, raw: str, normalized: str | None
) -> None:
    (value,) = find_values(text)
    assert (value.type, value.raw) == (kind, raw)
    assert normalized in (None, value.normalized)


@pytest.mark.parametrize(
    "text", ["two of them, maybe three", "No. 's fine — e.g. and/or", "", "²①"]
)
def test_words_need_no_grounding(text: str) -> None:
    assert find_values(text) == []


def test_a_number_around_words_is_a_number_not_a_code() -> None:
    assert found("a 5-day trip for 10-12 people, 10:00-12:00") == [
        ("number", "5"),
        ("number", "10"),
        ("number", "12"),
        ("time", "10:00"),
        ("time", "12:00"),
    ]


def test_a_date_inside_a_code_belongs_to_the_code() -> None:
    assert found("ORD-2024-01-15") == [("identifier", "ORD-2024-01-15")]


@pytest.mark.parametrize(
    ("raw", "source", "expected"),
    [
        ("12", "room 12.", True),
        ("12", "120", False),
        ("12", "3.12", False),
        ("12", "12,5", False),
        ("30", "at 14:30", False),
        ("05", "2025-05-03", False),
        ("123", "AB-123", False),
        ("5", "-5 degrees", False),
        ("5", "a 5-day trip", True),
        ("10", "10-12 people", True),
        ("12", "12月", True),
        ("ab-1", "AB-1", False),
        ("Ann", "Anna", False),
        ("Ann", "Ann's", True),
        ("ana", "ana@x.org", False),
        ("example", "www.example.com", False),
        ("東京", "明日東京へ行く", True),
        ("cafe", "cafe\u0301", False),
        ("12 kg", "12\u00a0kg", False),
        ("", "anything", False),
        (" ", "a b", False),
        ("\ud800", "x\ud800y", True),
    ],
)
def test_a_value_is_held_as_a_whole_token_only(
    raw: str, source: str, expected: bool
) -> None:
    assert held(raw, source) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "https://example.org/?q=" + "a1-_~%20" * 1_250,
        base64.b64encode(os.urandom(3_000)).decode(),
        "Ana Díaz\n221B Baker Street\nLondon  NW1 6XE\nUnited\u00a0Kingdom",
    ],
)
def test_long_values_survive_byte_for_byte(raw: str) -> None:
    source = f"Please keep this: {raw} and nothing else."
    assert held(raw, source)
    assert not held(raw[:-1] + "!", source)


def test_a_long_link_is_one_value() -> None:
    link = "https://example.org/?q=" + "a1-_~%20" * 1_250
    assert found(f"See {link}.") == [("url", link)]


said = st.text(st.characters(codec=None, exclude_categories=())) | st.lists(
    st.sampled_from(
        "12 120 -5 3.5 $40 40€ 10:30 5pm 2025-05-03 May 7 5月3日 AB-12 order # / - . , : a@b.co "
        "https://x.org/?a=1 +49 30 (0) ２０ \u00a0 \u0301 東 Baker Street v1.2 tomorrow".split(
            " "
        )
    )
).map(lambda parts: "".join(f"{part}{' ' * (len(part) % 2)}" for part in parts))


@given(said)
def test_every_text_holds_its_own_values(text: str) -> None:
    for value in find_values(text):
        assert held(value.raw, text)


@given(said, said)
def test_only_exact_substrings_are_held(text: str, source: str) -> None:
    for raw in (text, *raws(text)):
        assert not held(raw, source) or raw in source


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_number_is_not_grounded_by_another(one: int, other: int) -> None:
    assert held(str(one), f"It was {other}.") == (one == other)


@pytest.mark.parametrize("end", [".", ",", "!", "", " and more."])
def test_a_date_at_the_end_of_a_sentence_has_no_full_stop(end: str) -> None:
    assert found(f"The birthday is 12 May{end}") == [("date", "12 May")]
