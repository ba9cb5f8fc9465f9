"""Where one message would let many records end, the changes wait until somebody confirms them."""

from typing import Any

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from tests.support.models import AnswersBySchema
from tests.support.writing import change, memories

THINGS = [f"The user owns the boat number {n}." for n in range(6)]
SOLD = "I sold all six boats and bought a bicycle."
BIKE = {"text": "The user owns a bicycle.", "sources": ["m1"], "attribute": "vehicle"}


@pytest.fixture
def ana(open_memory: Any) -> Any:
    """A user one of whose messages, `sold`, would let six records end."""
    rows = [
        {"text": text, "sources": ["m1"], "attribute": f"boat {n}"}
        for n, text in enumerate(THINGS)
    ]
    model = AnswersBySchema(Extraction=memories(*rows))
    user = open_memory(model).user("ana")
    user.add(
        [{"role": "user", "content": "I own six boats."}],
        session_id="s1",
        at="2026-01-01",
    )
    user.flush()
    ends = [change(f"n{n}", "ended", "sold all six boats") for n in range(1, 6)]
    ends.append(change("n6", "replaces", "sold all six boats", by=0))
    model.answers["Extraction"] = memories(BIKE, changes=ends)
    message = {"role": "user", "content": SOLD, "id": "sold"}
    user.add([message], session_id="s2", at="2026-05-01")
    report = user.flush()
    assert (report.held, report.updated, report.stored) == (6, 0, 1)
    return user


def holding(user: Any, **options: Any) -> list[str]:
    return [row["text"] for row in user.export_records(**options)]


def test_they_wait_and_are_listed(ana: Any) -> None:
    assert sorted(holding(ana)) == sorted([*THINGS, BIKE["text"]])
    held = ana.held_changes()
    assert [(one.relation, one.message_id) for one in held] == [
        ("ended", "sold")
    ] * 5 + [("replaces", "sold")]
    assert {one.quote for one in held} == {"sold all six boats"}
    assert all(ana.changes(one.record_id) == [] for one in held)
    assert not ana.get_conversation("sold")[0].labels


def test_confirmed_they_are_made(ana: Any) -> None:
    changed = ana.confirm("sold")
    assert len(changed) == 6
    assert {one.status for one in changed} == {"superseded"}
    assert holding(ana) == [BIKE["text"]]
    assert sorted(holding(ana, as_of="2026-03-01")) == THINGS
    assert ana.held_changes() == []
    assert ana.confirm("sold") == []
    assert [one.quote for one in ana.changes(changed[0].record_id)] == [
        "sold all six boats"
    ]
    assert ana.doctor(sample=0).ok
    ana.undo(message="sold")
    assert sorted(holding(ana)) == THINGS


async def test_the_twins(ana: Any) -> None:
    assert len(await ana.aheld_changes()) == 6
    assert len(await ana.aconfirm("sold")) == 6


@pytest.mark.parametrize("how", ["undo", "forget"])
def test_undone_or_forgotten_nothing_waits(ana: Any, how: str) -> None:
    getattr(ana, how)(message="sold")
    assert ana.held_changes() == []
    assert sorted(holding(ana)) == THINGS


def test_what_was_changed_meanwhile_stays(ana: Any) -> None:
    first, last = (
        next(r for r in ana.export_records() if r["text"] == THINGS[n]) for n in (0, 5)
    )
    corrected = ana.correct(first["record_id"], "The user owns the boat Nightingale.")
    (bike,) = [row for row in ana.export_records() if row["text"] == BIKE["text"]]
    ana.undo(bike["record_id"])
    assert len(ana.confirm("sold")) == 4
    assert sorted(holding(ana)) == sorted([corrected.text, last["text"]])


def test_an_unknown_message_is_an_error(ana: Any) -> None:
    with pytest.raises(InvalidInputError, match="There is no message 'x'"):
        ana.confirm("x")


def test_another_user_has_none(ana: Any, open_memory: Any) -> None:
    memory: Memory = (
        ana._memory if hasattr(ana, "_memory") else open_memory(AnswersBySchema())
    )
    assert memory.user("bob").held_changes() == []
