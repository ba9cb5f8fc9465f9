"""What is copied, what a model may read from other words, and what code refutes."""

from typing import Any

import pytest

from langmem_graph.grounding.tool_schema import Slot
from langmem_graph.grounding.value_kinds import (
    copied,
    is_called,
    is_readable,
    is_refuted,
    numbers_in,
)

TEXT = {"type": "string"}


def slot(schema: dict[str, Any]) -> Slot:
    return Slot(("x",), schema, required=True)


@pytest.mark.parametrize(
    ("value", "quotes", "stands"),
    [
        ("łódź (poland)", ["to Łódź (Poland) then"], "Łódź (Poland)"),
        ("LH992441X", ["LH-992 441/x"], "LH992441X"),
        ("934118206", ["ring 934 118 206"], "934118206"),
        ("Ana Ruiz", ["Ana", "Ruiz"], "Ana Ruiz"),
        ("Ruiz, Ana", ["Ana", "Ruiz"], "Ruiz, Ana"),
        ("Ana Maria Ruiz", ["Ana", "Maria", "Ruiz"], "Ana Maria Ruiz"),
        ("Ana Ruiz", ["Ana", "our name is Ruiz"], None),
        ("a b c d", ["a", "b", "c", "d"], None),
        (f"{'a' * 40} {'b' * 40}", ["a" * 40, "b" * 40], None),
        ("12 34", ["12", "34"], None),
        ("118", ["ring 934 118 206"], None),
        ("Paris", ["Book that flight"], None),
        ("white", ["witte ranonkels"], None),
    ],
)
def test_a_text_is_copied_or_it_is_not(
    value: str, quotes: list[str], stands: str | None
) -> None:
    assert copied(value, quotes) == stands


@pytest.mark.parametrize(
    ("value", "schema", "readable"),
    [
        (7, {"type": "integer"}, True),
        (True, {"type": "boolean"}, True),
        ("weekly", {"enum": ["weekly", "monthly"]}, True),
        ("2026-03-31", TEXT, True),
        ("2026-03", TEXT, True),
        ("19:45", TEXT, True),
        ("2026-03-31T19:45", TEXT, True),
        ("2026-03-31T19:45:00+01:00", TEXT, True),
        ("2026-13-31", TEXT, False),
        ("25:00", TEXT, False),
        ("31/03/2026", TEXT, False),
        ("180", TEXT, True),
        ("396.00", TEXT, True),
        ("false", TEXT, True),
        ("Yes", TEXT, True),
        ("0170", TEXT, False),
        ("5501382", TEXT, False),
        ("LIS", TEXT, False),
        ("EUR", {**TEXT, "maxLength": 3}, True),
        ("lis", {**TEXT, "maxLength": 3}, True),
        ("a1", {**TEXT, "pattern": "^[a-z][0-9]$"}, True),
        ("a1", {**TEXT, "pattern": "^[a-z][0-9]*$"}, False),
        ("lis", TEXT, False),
        ("LISB", TEXT, False),
        ("99Z", TEXT, False),
        ("Paris", TEXT, False),
        ("a@b.example", {**TEXT, "format": "email"}, False),
        ("AB", {**TEXT, "format": "hostname"}, False),
    ],
)
def test_what_a_model_may_read_from_other_words(
    value: Any, schema: dict[str, Any], readable: bool
) -> None:
    assert is_readable(value, slot(schema)) is readable


@pytest.mark.parametrize(
    ("value", "words", "called"),
    [
        ("+351934118206", "934 118 206", True),
        ("+447700900156", "on 07700 900156", True),
        ("+351934118206", "934 118 207", False),
        ("+351934118206", "118 206", False),
        ("+351934118206", "my number", False),
        ("+99999934118206", "934 118 206", False),
        ("351934118206", "934 118 206", False),
    ],
)
def test_a_calling_code_may_stand_before_digits_that_were_said(
    value: str, words: str, called: bool
) -> None:
    assert is_called(value, [words]) is called


@pytest.mark.parametrize(
    ("value", "quotes"),
    [
        (4, ["with 2 bags"]),
        (5, ["3 nights"]),
        (20.5, ["€ 41"]),
        ("20.5", ["€ 41"]),
        ("2026-07-02", ["2026-07-03"]),
        ("2026-07-02T10:00", ["3.7.2026"]),
        ("2026-02-09", ["02/07/2026"]),
    ],
)
def test_nothing_but_another_number_or_day_refutes(value: Any, quotes: Any) -> None:
    assert is_refuted(value, quotes)


@pytest.mark.parametrize(
    ("value", "quotes"),
    [
        (2, ["with 2 bags"]),
        (1.5, ["1,5 kg"]),
        (1500, ["1.500 euro"]),
        (1500, ["150 cm wide"]),
        (4100, ["€ 41"]),
        (14, ["2 weeks"]),
        (2_000_000, ["€2m"]),
        (7, ["seven of us"]),
        (3, ["turned three on 2 September"]),
        (138, ["414 euros altogether", "By three!"]),
        (127.5, ["three at 42.50"]),
        (True, ["2 bags"]),
        ("2026-07-02", ["02/07/2026"]),
        ("2026-02-07", ["02/07/2026"]),
        ("2026-07-02", ["2 July"]),
        ("2026-07-02", ["the day before 3.7.2026"]),
        ("LIS", ["2026-07-03"]),
    ],
)
def test_of_other_words_code_knows_nothing(value: Any, quotes: Any) -> None:
    assert not is_refuted(value, quotes)


def test_numbers_are_read_in_every_way_in_which_they_are_written() -> None:
    read = {str(number) for number in numbers_in("1.500 and 2½")}
    assert {"1500", "1.500", "2", "0.5"} <= read
