"""No text that a user, a model or a tool writes makes a pattern or function slow.

Two lengths of one text are compared in one run: a ratio of 2 is linear time, 4 is
quadratic, and exponential time shows where a text is repeated 19 times.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from functools import partial
from typing import Any

import pytest

from langmem_graph.extraction.verify_values import grade_of
from langmem_graph.grounding import value_kinds
from langmem_graph.moments.fitting import asked_days
from langmem_graph.moments.scanner import scan
from langmem_graph.schedule import named_moments, time_phrases, worded_days
from langmem_graph.schedule.model_written_times import written_event
from langmem_graph.values import matching
from tests.support import slow_texts

pytestmark = pytest.mark.long
LENGTH = 2_000
LARGEST = 3.2
TRIALS = 6
NOW = datetime.fromisoformat("2026-03-04T10:00:00+00:00")
TODAY: date = NOW.date()
PATTERNS = slow_texts.patterns()
FUNCTIONS: dict[str, Callable[[str], Any]] = {
    **slow_texts.text_functions(),
    "scan": lambda text: scan(text, NOW),
    "asked_days": lambda text: asked_days(text, TODAY),
    "days_in": lambda text: named_moments.days_in(text, TODAY),
    "worded_days": lambda text: worded_days.worded_days(text, TODAY, [TODAY]),
    "spoken_time": lambda text: time_phrases.spoken_time(text, NOW),
    "written_event": lambda text: written_event(text, said_at=NOW),
    "says": lambda text: matching.says(text, text[:20]),
    "quoted_in": lambda text: matching.quoted_in(text[:20], text),
    "whole_in": lambda text: matching.whole_in(text[:50], text),
    "holds_words": lambda text: matching.holds_words(text, text[:20]),
    "holds_value": lambda text: matching.holds_value(text, text[:20]),
    "is_telling": lambda text: matching.is_telling(text, text[:100]),
    "said_of": lambda text: matching.said_of(text, [text[:20]]),
    "a number with its unit": lambda text: value_kinds.is_refuted(7, [f"1{text}"]),
    "a day": lambda text: value_kinds.is_refuted("2026-05-07", [text]),
    "a phone number": lambda text: value_kinds.is_called("+351934118206", [text]),
}

PAIRS: dict[str, Callable[[str, str], Any]] = {
    "quoted_in": matching.quoted_in,
    "whole_in": matching.whole_in,
    "says": lambda part, text: matching.says(text, part),
    "holds": lambda part, text: matching.holds(text, part),
    "holds_words": lambda part, text: matching.holds_words(text, part),
    "holds_value": lambda part, text: matching.holds_value(text, part),
    "is_telling": lambda part, text: matching.is_telling(text, part),
    "another spelling": value_kinds._is_respelled,
    "quotes in a row": lambda part, text: value_kinds._is_joined(part, text.split()),
    "copied": lambda part, text: value_kinds.copied(part, [text, part]),
    "a grade": lambda part, text: grade_of(part, part, [text]),
}
"""Functions of a text and a part of it, which a model has chosen."""
ENDS = {"near miss": "aQ", "part": "", "number": " 000"}


def slow_growth(
    work: Callable[[str], Any], pumps: list[str], length: int = LENGTH
) -> dict[str, float]:
    """The growth for each pump that is more than it may be, also when tried again.

    Each trial takes longer texts: what other work on the machine adds counts for less.
    """
    slow = dict[str, float]()
    for pump in pumps:
        for trial in range(1, TRIALS + 1):
            growth = slow_texts.growth(work, pump, trial * length)
            if growth <= LARGEST:
                break
        else:
            slow[pump] = growth
    return slow


def tolerant(work: Callable[[str], Any], text: str) -> None:
    """Some texts make no sense to some functions; here it is time that counts."""
    with suppress(Exception):
        work(text)


def test_patterns_and_functions_are_seen() -> None:
    assert len(PATTERNS) > 100
    assert len(FUNCTIONS) > 40


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_linear_time(name: str) -> None:
    pattern, use = PATTERNS[name]

    def run(text: str) -> None:
        if use == "finditer":
            list(pattern.finditer(text))
        else:
            getattr(pattern, use)(text)

    assert slow_growth(run, slow_texts.pumps(pattern)) == {}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_texts_takes_linear_time(name: str) -> None:
    work = partial(tolerant, FUNCTIONS[name])
    assert slow_growth(work, [*slow_texts.COMMON, *slow_texts.NUMBERS]) == {}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_part_is_looked_for_in_linear_time(name: str, end: str) -> None:
    def work(text: str) -> None:
        tolerant(lambda one: PAIRS[name](f"{one[: len(one) // 2]}{end}", one), text)

    assert slow_growth(work, [*slow_texts.COMMON, *slow_texts.NUMBERS]) == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(?:(?<!\d)x?|x?(?!\d))*y",
        r"(?:(?:now|so|good|(?:good )?(?:morning|day))[\s,.]+)*next",
    ],
)
def test_an_exponential_pattern_would_be_seen(pattern: str) -> None:
    compiled = re.compile(pattern)
    growths = slow_growth(compiled.fullmatch, slow_texts.pumps(compiled))
    assert float("inf") in growths.values()


def test_a_quadratic_one_would_be_seen() -> None:
    # The longer, the surer on a fast machine, and beside other work: of one length all
    # trials have to show it.
    search = re.compile(r"a+b").search
    lengths = (times * LENGTH for times in (4, 8, 12))
    assert any(slow_growth(search, ["aaa"], length=length) for length in lengths)
