"""What messages did to records: the effects that have words.

They are read back from the rows of an export, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Row, Select, case, select, update

from langmem_graph.errors import explain
from langmem_graph.schemas import RecordChange
from langmem_graph.storage import record_effects, record_queries, record_writes
from langmem_graph.storage.effects import (
    END,
    ENDING,
    HIDDEN,
    OPS,
    SKIP,
    SUPERSEDE,
    Effect,
)
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import Change, Words, naive
from langmem_graph.storage.tables import MESSAGES, RECORDS, effects, messages, records

CHANGES = "changes"
"""The key of a record's row under which its changes stand."""


def changes_of(
    connection: Reading, items: Iterable[int]
) -> dict[int, list[RecordChange]]:
    """The changes that messages made to these records and that still count, oldest
    first.

    Words that do not pass the connection's filter are left out of them.
    """
    e = effects.c
    found = rows_where_in(connection, _with_words(), e.record, items)
    rows = sorted(found, key=lambda row: row.n)
    made: dict[int, list[RecordChange]] = defaultdict(list)
    for row, told in zip(rows, _as_shown(connection, rows), strict=True):
        made[row.record].append(told)
    return dict(made)


def _as_shown(connection: Reading, rows: Sequence[Row[Any]]) -> list[RecordChange]:
    """Changes without the words and ids that do not pass the connection's filter."""
    said = connection.seen(MESSAGES, {row.message for row in rows})
    agreed = connection.seen(MESSAGES, {row.agreed_message for row in rows})
    by = connection.seen(RECORDS, {row.by_record for row in rows})
    shown = []
    for row in rows:
        hidden: dict[str, Any] = {}
        if row.message not in said:
            hidden |= {"quote": "", "message_id": ""}
        if row.agreed_message not in agreed:
            hidden |= {"agreed_quote": None, "agreed_message_id": None}
        if row.by_record not in by:
            hidden |= {"by_text": None, "by_record_id": None}
        shown.append(_change(row).model_copy(update=hidden))
    return shown


def changes_by(
    connection: Reading, items: Iterable[int]
) -> dict[int, list[RecordChange]]:
    """The changes that each of these messages made and that still count, oldest
    first.
    """
    e = effects.c
    r = connection.records.c
    query = _with_words().join(connection.records, r.n == e.record)
    rows = sorted(
        rows_where_in(connection, query, e.message, items), key=lambda row: row.n
    )
    made: dict[int, list[RecordChange]] = defaultdict(list)
    for row, one in zip(rows, _as_shown(connection, rows), strict=True):
        made[row.message].append(one)
    return dict(made)


def _with_words() -> Select[Any]:
    """Selects the effects that have words and count."""
    e = effects.c
    older = records.alias("older")
    by = records.alias("by")
    said = messages.alias("said")
    agreed = messages.alias("agreed")
    return (
        select(
            effects,
            older.c.record_id.label("record_id"),
            by.c.record_id.label("by_record_id"),
            case((by.c.status != HIDDEN, by.c.text)).label("by_text"),
            said.c.message_id.label("message_id"),
            agreed.c.message_id.label("agreed_message_id"),
        )
        .join(older, older.c.n == e.record)
        .join(said, said.c.n == e.message)
        .outerjoin(by, by.c.n == e.by_record)
        .outerjoin(agreed, agreed.c.n == e.agreed_message)
        .where(e.undone.is_(False))
    )


def _change(row: Row[Any]) -> RecordChange:
    times = {"since": aware(row.since), "at": aware(row.at)}
    return RecordChange.model_validate({**row._mapping, **times, "made_by": row.by})


def add_changes(connection: Reading, rows: Sequence[object]) -> list[str]:
    """Store the changes that rows of `add_records` name; the records are stored as they
    became.

    A warning is returned for each change that could not be stored.
    """
    problems = []
    for row in rows:
        several = row.get(CHANGES) if isinstance(row, Mapping) else None
        for given in several if isinstance(several, list | tuple) else ():
            try:
                _add_change(connection, row, given)
            except ValidationError as error:
                problems.append(explain(error))
            except ValueError as problem:
                problems.append(str(problem))
            except KeyError as missing:
                problems.append(f"unknown record or message {missing}")
    return [f"a change was left out: {problem}" for problem in problems]


def _add_change(connection: Reading, row: Any, given: object) -> None:
    """Store one change, unless it is stored already."""
    fields = dict(given) if isinstance(given, Mapping) else {}
    defaults = {"made_by": "import", "at": datetime.now(UTC), "quote": ""}
    own = {"record_id": row.get("record_id"), "change": ""}
    told = RecordChange.model_validate(defaults | fields | own)
    named = [told.record_id, told.by_record_id or told.record_id]
    said = [told.message_id, told.agreed_message_id or told.message_id]
    numbers = record_queries.numbers_of(connection, named)
    found = record_queries.message_numbers(connection, said)
    old = numbers[told.record_id]
    words = Words(
        relation=told.relation,
        message=found[told.message_id][0],
        quote=told.quote,
        since=naive(told.since),
        agreed_message=found[told.agreed_message_id][0]
        if told.agreed_message_id
        else None,
        agreed_quote=told.agreed_quote,
    )
    by_record = numbers[told.by_record_id] if told.by_record_id else None
    said_by = {words.agreed_message or words.message}
    if record_queries.foreign(connection, said_by) and record_queries.of_the_user(
        connection, [old]
    ):
        raise ValueError("words of a tool or an import change nothing of the user's")
    _store_words(connection, old, words, by_record, told)


def _store_words(
    connection: Reading, n: int, words: Words, by_record: int | None, told: RecordChange
) -> None:
    """Store what the words did to a record, which is stored as it has become."""
    stored = record_effects.effects_of(connection, [n])[n]
    counting = [one for one in stored if one.counts]
    op = OPS.get(words.relation, SUPERSEDE if by_record else END)
    same = [one for one in counting if _is_same(one, words, by_record)]
    if same:
        return
    bare = [one for one in counting if (one.op, one.by_record) == (op, by_record)]
    bare = [one for one in bare if one.message is None and by_record is not None]
    if bare:
        # the row of the newer record has told it without words
        row = {**vars(words), "by": told.made_by, "at": naive(told.at)}
        first = effects.c.n == bare[0].n
        connection.execute(update(effects).where(first).values(**row))
        return
    change = Change.new(told.made_by)
    at = naive(told.at)
    if op in ENDING:
        facts = record_queries.facts_of(connection, [n])[n]
        said_at = record_queries.said_at(connection, words.message)
        until = aware(facts.valid_to or words.since) or said_at
        record_effects.end_record(
            connection, n, until, change, words, by_record=by_record, at=at
        )
        return
    new_values = {"skipped": list[str]()} if op == SKIP else {}
    record_writes.add_effect(
        connection, n, op, change, new_values, by_record=by_record, words=words, at=at
    )


def _is_same(stored: Effect, words: Words, by_record: int | None) -> bool:
    names = ("relation", "message", "quote")
    return stored.by_record == by_record and all(
        getattr(stored, name) == getattr(words, name) for name in names
    )
