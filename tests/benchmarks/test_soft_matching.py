"""Whether a text supports a value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.metrics.soft_matching import supports
from langmem_graph.values.matching import says


@pytest.mark.parametrize(
    ("text", "value", "supported"),
    [
        ("I live at 12 Elm Street.", "12 Elm Street", True),
        ("I live at 12 Elm Street.", "13 Elm Street", False),
        ("an aisle seat, please", "aisle", True),
        ("an aisle seat, please", "Aisle", True),
        ("the aisles are narrow", "isle", False),
        ("booked for 2025-05-07", "7 May 2025", True),
        ("booked for May 7, 2025", "2025-05-07", True),
        ("booked for May 7, 2025", "2025-05-08", False),
        ("it cost 1,200.50 euros", 1200.5, True),
        ("it cost 1,200.50 euros", 1200, False),
        ("room 7", 7, True),
        ("room 17", 7, False),
        ("yes", True, False),
        ("anything", None, False),
        ("anything", "", False),
        ("no AC", "AC", True),
        ("a cat", "AC", False),
        ("mail ana@example.org or bob@example.org", "ana@example.org", True),
        ("mail ana@example.org", "anna@example.org", False),
        ("see https://example.org/A?b=1", "https://example.org/A?b=1", True),
        ("see https://example.org/A?b=1", "https://example.org/A?b=2", False),
        ("Ana, Bob and Cleo come", ["Ana", "Cleo"], True),
        ("Ana, Bob and Cleo come", ["Ana", "Dora"], False),
        ("Ana lives in Porto", {"who": "Ana", "where": "Porto"}, True),
        ("some vegetarian food", "vegetarian foods", True),
        ("我住在东京", "东京", True),
        ("ฉันไปกรุงเทพกัน", "กรุงเทพ", True),
        ("a raise of 3.5k", 3, False),
        ("5 million people", 5, False),
        ("12 500 kr", 500, False),
        ("it was −5 outside", -5, True),
    ],
)
def test_texts_support_values(text: str, value: Any, supported: bool) -> None:
    assert supports(text, value) is supported


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_texts_can_be_compared(text: str, value: str) -> None:
    assert supports(text, value) in (True, False)


@given(st.from_regex(r"[a-zA-Z0-9@./:]{3,20}", fullmatch=True))
def test_what_stands_in_a_text_is_said(value: str) -> None:
    assert says(f"well, {value} it is", value)
