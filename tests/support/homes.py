"""Homes that were moved out of: records that no longer hold, by hand and by what messages said."""

from datetime import datetime
from typing import Any

from langmem_graph.memory import Memory
from langmem_graph.schemas import NO_LONGER, ChangeRelation
from langmem_graph.storage import record_effects, record_queries
from langmem_graph.storage.effects import CONFIRM
from langmem_graph.storage.record_writes import Change, Words, naive
from tests.conftest import said

HOMES = ("Porto", "Berlin", "Oslo", "Turin", "Ghent", "Vigo", "Malmo", "Graz")


def live_in(user: Any, *homes: str, first: int = 1) -> None:
    """Each home's message `m1`, `m2` … and record `r1`, `r2` …, a month apart, each superseding."""
    for number, home in enumerate(homes, first):
        at = f"2025-{number:02}-05T10:00:00"
        user.add(
            [said(f"I live in {home}.", id=f"m{number}", at=at)],
            session_id=f"s{number}",
        )
        row = {
            "record_id": f"r{number}",
            "text": f"Ana lives in {home}.",
            "said_at": at,
        }
        row |= {
            "source_message_ids": [f"m{number}"],
            "subject": "user",
            "attribute": "home",
        }
        older = {"supersedes": [f"r{number - 1}"]} if number > first else {}
        assert user.add_records(row | older).stored == [f"r{number}"]


def told(
    user: Any, text: str, message: str, record: str, at: str, **fields: Any
) -> None:
    """A message, and the record of what it says."""
    user.add([said(text, id=message, at=at)], session_id=f"session of {message}")
    row = {"record_id": record, "text": text, "source_message_ids": [message], **fields}
    assert user.add_records(row).stored == [record]


def changed(
    memory: Memory,
    relation: ChangeRelation,
    record: str,
    message: str,
    quote: str,
    *,
    by: str | None = None,
    since: datetime | None = None,
    user: str = "ana",
) -> Change:
    """What a message does to a record, stored as extraction stores it."""
    change = Change.new("model")
    with (
        memory._services.room(user) as room,
        room.database.write_transaction() as connection,
    ):
        numbers = record_queries.numbers_of(
            connection, [one for one in (record, by) if one]
        )
        n, said_at, _ = record_queries.message_numbers(connection, [message])[message]
        old = record_queries.records_by_number(connection, [numbers[record]])[
            numbers[record]
        ]
        until = (
            old.valid_from
            if relation == "corrects"
            else since or record_queries.aware(said_at)
        )
        words = Words(relation, n, quote, naive(since))
        older = numbers[record]
        if by and relation in NO_LONGER:
            newer = numbers[by]
            record_effects.supersede(connection, older, newer, until, change, words)
        elif relation in NO_LONGER:
            record_effects.end_record(connection, older, until, change, words)
        elif by:
            record_effects.refine(connection, older, numbers[by], change, words)
        else:
            record_effects.change_record(connection, older, CONFIRM, change, {}, words)
    return change
