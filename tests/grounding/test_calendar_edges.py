"""Days before the year 1 or after 9999 are none, whoever names them: no error."""

import time
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.grounding.derivations import Quoted, states, text_derivation
from langmem_graph.memory import Memory
from tests.conftest import let_go
from tests.support.flights import filling
from tests.support.models import AnswersBySchema
from tests.support.settings import nested

WORDS = [
    "in May",
    "May 0000 please",
    "9999-12-31 for 3 weeks",
    "9999-12-31 at 23:59",
    "tomorrow I fly in 3 weeks",
    "yesterday, and 3 weeks ago",
    "last Friday",
    "on Monday of next week",
    "next Thursday",
    "the 31st",
    "31 December",
]
VALUES = [
    "0000-05",
    "12/0000",
    "9999-12-31",
    "9999-12-31T23:59:00+09:00",
    "0001-01-01T00:00:00-05:00",
    "00:30",
    "Monday",
]
EDGES = [date.min, date(9999, 12, 29), date.max]
DATES = {
    "title": "book",
    "type": "object",
    "properties": {"day": {"type": "string"}, "month": {"type": "string"}},
}


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/New_York"])
def test_what_words_name_is_looked_for_without_an_error(
    words: str, zone: str | None
) -> None:
    for value, said in product(VALUES, EDGES):
        quotes = [Quoted(one, one, said) for one in (words, "for 3 weeks")]
        assert text_derivation(value, "", quotes, zone) in (None, "date"), value
        assert not states(words, value) or value[:10] in words


def test_days_within_the_calendar_are_still_found_at_its_edges() -> None:
    for value, words, said in (
        ("9999-12-31", "tomorrow, or in 3 weeks", date(9999, 12, 30)),
        ("0001-01-01", "yesterday, or last Friday", date(1, 1, 2)),
        ("9999-12", "in December", date.max),
        ("0001-01-01", "on 1 January", date(1, 1, 1)),
    ):
        assert text_derivation(value, "", [Quoted(words, words, said)], None) == "date"


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("at", ["0001-01-01", "9999-12-31T23:59:59"])
def test_a_users_words_at_the_calendars_edges_are_kept_and_recalled(
    tmp_path: Path, zone: str | None, at: str
) -> None:
    said = "Tomorrow I fly in 3 weeks. May 0000 please, 9999-12-31 for 3 weeks."
    cited: list[Any] = [
        ("day", "9998-05-05", "f0", said),
        ("month", "0000-05", "f0", said),
    ]
    memory = Memory(
        tmp_path / "m",
        model=AnswersBySchema(ToolFill=filling(*cited)),
        embeddings="hash",
        settings=nested(time_zone=zone, extraction__debounce_seconds=3_600),
    )
    ana = memory.user("ana")
    ana.add([{"role": "user", "content": said}], session_id="s", at=at)
    assert ana.flush().problems == []
    for request in ("Book it tomorrow at 9:00.", "What is planned next Friday?"):
        assert ana.recall(request, at=at, mode="reason").report.status == "ok"
    call = ana.ground(DATES, said, at=at)
    assert call.arguments == {}
    assert all("do not say" in one for one in call.warnings)
    let_go(memory)


def test_a_list_of_many_or_deep_parts_counts_as_not_stated() -> None:
    """Each part reads the whole text again, and an agent may write any number."""
    deep: object = "Monday"
    for _ in range(2_000):
        deep = [deep]
    assert states("Monday, then Tuesday", ["Monday", ["Tuesday"]])
    assert not states("Monday", ["Monday"] * 1_000)
    begun = time.process_time()
    times = [f"2026-03-{day:02}T17:10" for day in range(1, 29)]
    states("at 5:10 pm, on 3 March 2026, " * 2_000, times)
    assert time.process_time() - begun < 8
    assert not states("Monday", deep)
    assert not states("Monday", ["Monday", []])
