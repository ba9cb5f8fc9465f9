"""One message may let any number of records end; reports count them, and `undo` takes them back."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.backlog import fill
from tests.support.models import AnswersBySchema
from tests.support.writing import change, line_aliases, memories, record_alias

BOATS = [f"The user owns the boat number {n}." for n in range(8)]
CAR, PIANO = "The user owns a car.", "The user owns a piano."
SOLD = "I sold all eight boats."
QUOTES = {
    SOLD: ("sold all eight", BOATS),
    "I gave my car away.": ("gave my car away", [CAR]),
    "The piano is sold, too.": ("piano is sold", [PIANO]),
}
"""What each message lets end, with the words that say so."""


def say(user: Any, text: str, **fields: Any) -> None:
    session = fields.pop("session", "s2")
    user.add([{"role": "user", "content": text, **fields}], session_id=session)


def ends(question: str) -> dict[str, Any]:
    """The changes of every message that lets something end."""
    return memories(
        changes=[
            change(record_alias(question, text), "ended", quote, message=alias)
            for alias, words in line_aliases(question).items()
            for said, (quote, texts) in QUOTES.items()
            if said in words
            for text in texts
        ]
    )


def holding(user: Any) -> list[str]:
    return sorted(row["text"] for row in user.export_records())


@pytest.fixture
def ana(open_memory: Any) -> Any:
    """A user who owns eight boats, a car and a piano."""
    rows: Iterable[dict[str, Any]] = (
        {"text": text, "sources": ["m1"], "attribute": text[-9:]}
        for text in (*BOATS, CAR, PIANO)
    )
    model = AnswersBySchema(Extraction=memories(*rows))
    user = open_memory(model).user("ana")
    say(user, "I own eight boats, a car and a piano.", session="s1", at="2026-01-01")
    assert user.flush().stored == 10
    model.answers["Extraction"] = ends
    return user


def test_all_end_are_counted_and_come_back_in_one_call(ana: Any) -> None:
    say(ana, SOLD, id="sold", at="2026-05-01")
    say(ana, "I gave my car away.", id="gave", at="2026-05-02")
    report = ana.flush()
    assert (report.updated, report.refused_changes, report.reasons) == (9, 0, [])
    assert report.ended_by == {"sold": 8, "gave": 1}
    assert holding(ana) == [PIANO]
    assert len(ana.undo(message="sold")) == 8
    assert holding(ana) == sorted([*BOATS, PIANO])  # the other message's change stays
    assert ana.doctor(sample=0).ok


def test_the_counts_of_all_batches_of_a_flush_are_together(ana: Any) -> None:
    fill(ana, sessions=3, turns=5)
    for n, said in enumerate(QUOTES):
        say(ana, said, id=f"u{n}", at=f"2026-05-0{n + 1}", session=f"s{n}")
    assert ana.flush_forecast().batches > 1
    report = ana.flush()
    assert (report.updated, report.ended_by) == (10, {"u0": 8, "u1": 1, "u2": 1})
    assert holding(ana) == []


def test_where_nothing_ends_nothing_is_counted(ana: Any) -> None:
    say(ana, "Good morning.")
    assert ana.flush().ended_by == {}
