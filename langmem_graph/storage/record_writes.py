"""Storing and changing records; every change keeps what was there before, and can be
undone.

Nothing here deletes: a record that no longer holds keeps its row, its dates and its
history.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.schemas import Record
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    EMBED,
    INDEX,
    RECORDS,
    RECORDS_CHANGED,
    attributes,
    get_meta,
    history,
    links,
    outbox,
    record_sources,
    records,
    set_meta,
    vectors,
)

TO_COME = "to_come"
"""The key of the latest time at which a stored record begins or ceases to hold in the
future.
"""
_ALWAYS = "9999-12-31"
"""The value of that key where the records that hold are no longer told by their status
alone.
"""
SUPERSEDES = "supersedes"
REFINES = "refines"
SUPERSEDED = "superseded"
EXPIRED = "expired"
"""Of a record that had ceased to hold before it was stored."""
DISCARDED = "discarded"
HIDDEN = "hidden"
BY_HAND = "user"
FORM = "form"
"""The key of those of a record's values that are data in a form of the
application's.
"""
Columns = dict[str, Any]
_PLAIN = (
    *("text", "kind", "facet", "project", "confirmation", "status"),
    *("priority", "scene", "entities", "made_by"),
)


@dataclass(frozen=True)
class Change:
    """Who makes a change and why; all entries with one id are undone together."""

    by: str
    reason: str | None = None
    id: str = ""

    @classmethod
    def new(cls, by: str, reason: str | None = None) -> "Change":
        """A change with an id of its own."""
        return cls(by, reason, uuid.uuid4().hex[:16])


@dataclass(frozen=True)
class Draft:
    """A checked record, the hash of its content, and the numbers of the messages it
    cites.
    """

    record: Record
    content_hash: str
    sources: list[int]
    """Those that carry it."""
    supporting: list[int] = field(default_factory=list)
    """Those that only say it again."""


def naive(at: datetime | None) -> datetime | None:
    """A time in UTC without its zone, as the ledger stores times."""
    return None if at is None else at.astimezone(UTC).replace(tzinfo=None)


def now() -> datetime:
    """The present time, as the ledger stores times."""
    return datetime.now(UTC).replace(tzinfo=None)


def store(
    connection: Connection, new: Draft, by: Change, *, instead_of: int | None = None
) -> tuple[int, bool]:
    """Store a record, or let its messages support another active one that says the
    same.

    That of which it takes the place (`instead_of`) may say the same. The record's
    number is returned, and whether it is new.
    """
    same = active_with_hash(connection, new.content_hash)
    if same is None or same == instead_of:
        return insert_record(connection, new, by), True
    add_sources(connection, same, [*new.sources, *new.supporting], supporting=True)
    return same, False


def insert_record(connection: Connection, new: Draft, by: Change) -> int:
    """Store a record under a free id with its words, due work, sources and first
    history entry.
    """
    record = new.record
    row = {name: getattr(record, name) for name in _PLAIN}
    row |= {
        name: naive(getattr(record, name))
        for name in ("said_at", "valid_from", "valid_to")
    }
    row |= {name: naive(getattr(record, name)) for name in ("created_at", "updated_at")}
    forms = [{FORM: name, "data": one} for name, one in (record.data or {}).items()]
    row |= {"event": record.event_time, "verbatim": [*record.values, *forms]}
    row |= {
        "record_id": free_id(connection, record.record_id),
        "content_hash": new.content_hash,
    }
    row["attribute"] = attribute_number(connection, record.subject, record.attribute)
    made = insert(records).values(**row).returning(records.c.n)
    n: int = connection.execute(made).scalar_one()
    if record.valid_from > record.said_at:
        _note_to_come(connection, row["valid_from"])
    if record.valid_to is not None:
        _note_to_come(connection, row["valid_to"], ends_alone=record.status == ACTIVE)
    add_sources(connection, n, new.sources)
    add_sources(connection, n, new.supporting, supporting=True)
    RECORD_WORDS.add(connection, {n: [record.text]})
    connection.execute(insert(outbox).values(layer=RECORDS, item=n, task=EMBED))
    log_entry(connection, n, "create", by, None)
    return n


def _note_to_come(
    connection: Connection, at: datetime | None, *, ends_alone: bool = False
) -> None:
    """Note that a record begins or ceases to hold at a time that is still to come.

    With `ends_alone` its status will not change then: the dates must always be looked
    at.
    """
    if at is not None and at > now():
        latest = _ALWAYS if ends_alone else f"{at}"
        set_meta(connection, TO_COME, max(get_meta(connection, TO_COME) or "", latest))


def attribute_number(
    connection: Connection, subject: str | None, name: str | None
) -> int | None:
    """The number of a subject's attribute, which is created if new; None without a
    subject.
    """
    if not subject:
        return None
    key = {"subject": plain(subject), "name": plain(name or "")}
    connection.execute(upsert(attributes).values(**key).on_conflict_do_nothing())
    number: int = connection.execute(
        select(attributes.c.n).filter_by(**key)
    ).scalar_one()
    return number


def plain(name: str) -> str:
    """A subject's or attribute's name in a form that ignores case and spacing."""
    return " ".join(name.casefold().split())


def add_sources(
    connection: Connection, n: int, sources: Iterable[int], *, supporting: bool = False
) -> None:
    """Add messages to those that a record cites; supporting ones only say it again.

    A message that carries the record goes on carrying it.
    """
    rows = [{"record": n, "message": one, "supporting": supporting} for one in sources]
    if not rows:
        return
    new = upsert(record_sources)
    keys = ["record", "message"]
    carried = new.on_conflict_do_update(index_elements=keys, set_={"supporting": False})
    connection.execute(new.on_conflict_do_nothing() if supporting else carried, rows)


def change_record(
    connection: Connection, n: int, op: str, by: Change, values: Columns
) -> None:
    """Set columns of a record to new values, and keep the former ones in its history.

    Without values only the history gets an entry, as for a message that confirms the
    record.
    """
    old = connection.execute(select(records).where(records.c.n == n)).one()._mapping
    before = {name: jsonable(old[name]) for name in values}
    set_columns(connection, n, values)
    log_entry(connection, n, op, by, before)


def set_columns(connection: Connection, n: int, values: Columns) -> None:
    """Set columns of a record without an entry in its history."""
    stamped = values | {"updated_at": now()}
    connection.execute(update(records).where(records.c.n == n).values(**stamped))
    _note_to_come(connection, values.get("valid_to"))
    if "status" in values:
        note_changed_records(connection)
        _index_again(connection, n)


def note_changed_records(connection: Connection) -> None:
    """Note that what was read of records before may be out of date."""
    set_meta(connection, RECORDS_CHANGED, uuid.uuid4().hex)


def supersede(
    connection: Connection, old: int, new: int, at: datetime, by: Change
) -> None:
    """Let the old record end at `at`, where the new one takes its place; the old one is
    kept.
    """
    add_link(connection, new, old, SUPERSEDES)
    end_record(connection, old, "supersede", at, by)


def end_record(
    connection: Connection, n: int, op: str, at: datetime, by: Change
) -> None:
    """Let a record hold until `at` (with a time zone); one that ends earlier stays as
    it is.

    A record that should end before it began never held.
    """
    r = records.c
    columns = select(r.status, r.valid_from, r.valid_to).where(r.n == n)
    status, begun, former = connection.execute(columns).one()
    end = max(begun, at.astimezone(UTC).replace(tzinfo=None))
    if status == ACTIVE:
        end = min(end, former or end)
    elif status != SUPERSEDED or former is None or former <= end:
        return
    change_record(connection, n, op, by, {"status": SUPERSEDED, "valid_to": end})


def add_link(
    connection: Connection,
    source: int,
    target: int,
    kind: str,
    *,
    weight: float = 1.0,
    scorer: str | None = None,
    origin: str | None = None,
) -> None:
    """Link two records; a link that exists already gets the new weight, scorer and
    origin.
    """
    row = {"source": source, "target": target, "kind": kind, "weight": weight}
    row |= {"scorer": scorer, "origin": origin, "created_at": now()}
    latest = {name: row[name] for name in ("weight", "scorer", "origin")}
    made = upsert(links).values(**row)
    keys = ["source", "target", "kind"]
    connection.execute(made.on_conflict_do_update(index_elements=keys, set_=latest))


def log_entry(
    connection: Connection, n: int, op: str, by: Change, before: Columns | None
) -> None:
    """Add an entry to a record's history; `before` is None for its creation."""
    entry = {"change": by.id, "record": n, "op": op, "at": now(), "by": by.by}
    connection.execute(insert(history).values(**entry, reason=by.reason, before=before))


def jsonable(value: Any) -> Any:
    """A column's value as the history keeps it."""
    return value.isoformat() if isinstance(value, datetime) else value


def _index_again(connection: Connection, n: int) -> None:
    """Mark a record whose status has changed: Chroma holds vectors of active records
    only.
    """
    held = select(func.count()).where(vectors.c.layer == RECORDS, vectors.c.item == n)
    if connection.scalar(held):
        row = upsert(outbox).values(layer=RECORDS, item=n, task=INDEX)
        connection.execute(row.on_conflict_do_nothing())


def active_with_hash(connection: Connection, content_hash: str) -> int | None:
    """The number of the active record with this content hash, or of the hidden one, if
    any.
    """
    same = select(records.c.n).filter_by(content_hash=content_hash)
    same = same.where(records.c.status.in_((ACTIVE, HIDDEN)))
    return connection.scalar(same.order_by(records.c.n.desc()).limit(1))


def free_id(connection: Connection, record_id: str) -> str:
    """The id, or, if a stored record has it, a variant of it that is free."""
    number = 1
    candidate = record_id
    while connection.scalar(
        select(records.c.n).where(records.c.record_id == candidate)
    ):
        number += 1
        candidate = f"{record_id}~{number}"
    return candidate
