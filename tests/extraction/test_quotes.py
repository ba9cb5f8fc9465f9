"""When a quote stands in a message, and when it says something."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.values.matching import holds, holds_value, is_telling

SAID = "Well… I said “it’s   the tram\nnow” – not the BIKE."
words = st.text(st.sampled_from("abcäß 12.,\n\t"), min_size=1, max_size=30).filter(
    str.strip
)


@pytest.mark.parametrize(
    "quote",
    [
        "it's the tram now",
        "It's the Tram NOW",
        "said \"it's the tram",
        "said „it’s the tram now“",
        "now' - not the bike.",
        "  the   tram ",
    ],
)
def test_spaces_case_and_quotation_marks_do_not_count(quote: str) -> None:
    assert holds(SAID, quote)


@pytest.mark.parametrize(
    "quote", ["", "  ", "its the tram", "the bus now", "tram the", "BIKE!"]
)
def test_other_words_do_not_stand_there(quote: str) -> None:
    assert not holds(SAID, quote)


@given(before=words, quote=words, after=words)
def test_any_part_of_a_message_stands_in_it(
    before: str, quote: str, after: str
) -> None:
    assert holds(f"{before} {quote} {after}", quote)


@given(text=words, quote=words)
def test_what_stands_in_a_message_has_only_its_letters(text: str, quote: str) -> None:
    if holds(text, quote):
        assert "".join(quote.split()).casefold() in "".join(text.split()).casefold()


@pytest.mark.parametrize(
    ("text", "quote", "telling"),
    [
        ("I sold the boat.", "sold the", True),
        ("I sold the boat.", "boat", False),
        ("I sold the boat.", "boat.", False),
        ("Cancelled!", "cancelled", True),
        ("Yes.", "“Yes”", True),
        ("船を売りました。", "売りました", True),
        ("船を売りました。", "船", False),
        ("I sold the boat.", "...", False),
    ],
)
def test_one_word_says_something_only_where_it_is_all(
    text: str, quote: str, telling: bool
) -> None:
    assert is_telling(text, quote) is telling


@pytest.mark.parametrize(
    ("text", "value", "stands"),
    [
        ("It costs 42.50 EUR.", "42.50", True),
        ("It costs 42.50 EUR.", "42.50 EUR", True),
        ("It costs 42.50.", "42.50", True),
        ("It costs 142.50 EUR.", "42.50", False),
        ("It costs 42.50 EUR.", "42", False),
        ("It costs 42.50 EUR.", "50", False),
        ("It costs 42.501 EUR.", "42.50", False),
        ("at 14:30", "14", True),
        ("AB-12", "12", True),
        ("nothing", "", False),
    ],
)
def test_a_number_does_not_stand_within_a_longer_one(
    text: str, value: str, stands: bool
) -> None:
    assert holds_value(text, value) is stands


@given(
    number=st.integers(0, 9_999), more=st.integers(0, 9), value=st.integers(0, 9_999)
)
def test_only_the_numbers_of_a_text_stand_in_it(
    number: int, more: int, value: int
) -> None:
    text = f"Room {number}, {more} beds"
    assert holds_value(text, str(value)) == (value in (number, more))
