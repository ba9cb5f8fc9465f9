"""What stands in a text in place of the words that were removed from it."""

from datetime import date

import pytest

from langmem_graph.storage.removed_words import as_shown, mark_of

DAY = date(2026, 5, 2)
MARK = mark_of(DAY)
EARLIER = mark_of(date(2026, 5, 1))


@pytest.mark.parametrize(
    ("text", "words", "left"),
    [
        ("Tom's code is 4711.", ["4711"], "Tom's code is #."),
        ("a d 8", [*"[removdnqust 2026-08]"], "a # #"),
        ("my code 47-11-12", ["47-11", "11-12"], "my code #"),
        ("Jean Roy, Jean", ["Jean", "Jean Roy"], "#, #"),
        ("aaaa b", ["a"], "# b"),
        (f"no {EARLIER} day", ["o", "day"], f"n# {EARLIER} #"),
        (f"no {EARLIER} day", [f"{EARLIER} day", " "], "no #"),
        ("ß and ss", ["ss", ""], "ß and #"),
    ],
)
def test_words_are_looked_for_in_the_text_as_it_was(
    text: str, words: list[str], left: str
) -> None:
    assert as_shown(text, {1: words}, DAY) == left.replace("#", MARK)


def test_single_characters_leave_a_short_text() -> None:
    text = "Please forget my phone number 0162 and that I moved to Vienna [-8]." * 30
    shown = as_shown(text, {1: [*"eor[-]0126ntmvds"]}, DAY)
    assert len(shown) < len(text) * len(MARK)
