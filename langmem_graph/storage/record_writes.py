"""Storing records with their words, sources and links, and the effects upon them.

Nothing here deletes: a record that no longer holds keeps its row, its dates and its
history. What effects make of a record is computed in `record_effects.py`.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.schemas import ChangeRelation, Record
from langmem_graph.storage.effects import (
    ACTIVE,
    CREATE,
    END,
    HIDDEN,
    SUPERSEDED,
    text_of,
)
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
    EMBED,
    INDEX,
    RECORDS,
    RECORDS_CHANGED,
    attributes,
    effects,
    get_meta,
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
BY_HAND = "user"
WRITERS = (BY_HAND, "assistant")
"""Who writes records by hand: the user, or a model that called a tool."""
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
class Words:
    """The words of a message that do something to a record."""

    relation: ChangeRelation
    message: int
    """Its number."""
    quote: str
    since: datetime | None = None
    """The day that they name, in UTC without a zone, as the ledger stores times."""
    agreed_message: int | None = None
    """Where the quote is a proposal of the assistant's: the user's message that accepts
    it.
    """
    agreed_quote: str | None = None


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
    connection: Reading, new: Draft, by: Change, *, instead_of: int | None = None
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


def insert_record(connection: Reading, new: Draft, by: Change) -> int:
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
    _add_creation(connection, n, row, by)
    return n


def _add_creation(connection: Reading, n: int, row: Columns, by: Change) -> None:
    """Store how a record was made; one that was stored as ended is so by an effect."""
    state = {name: row[name] for name in ("confirmation", "facet", "event", "status")}
    state["valid_to"] = text_of(row["valid_to"])
    if row["status"] == SUPERSEDED:
        end = {name: state[name] for name in ("status", "valid_to")}
        state |= {"status": ACTIVE, "valid_to": None}
        add_effect(connection, n, CREATE, by, state)
        add_effect(connection, n, END, by, end)
    else:
        add_effect(connection, n, CREATE, by, state)


def _note_to_come(
    connection: Reading, at: datetime | None, *, ends_alone: bool = False
) -> None:
    """Note that a record begins or ceases to hold at a time that is still to come.

    With `ends_alone` its status will not change then: the dates must always be looked
    at.
    """
    if at is not None and at > now():
        latest = _ALWAYS if ends_alone else f"{at}"
        set_meta(connection, TO_COME, max(get_meta(connection, TO_COME) or "", latest))


def attribute_number(
    connection: Reading, subject: str | None, name: str | None
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
    connection: Reading, n: int, sources: Iterable[int], *, supporting: bool = False
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


def let_all_support(connection: Reading, n: int) -> None:
    """Let the messages that a record cites only support it."""
    own = record_sources.c.record == n
    connection.execute(update(record_sources).where(own).values(supporting=True))


def set_columns(connection: Reading, n: int, values: Columns) -> None:
    """Set columns of a record without an entry in its history."""
    stamped = values | {"updated_at": now()}
    connection.execute(update(records).where(records.c.n == n).values(**stamped))
    _note_to_come(connection, values.get("valid_to"))
    if "status" in values:
        note_changed_records(connection)
        _index_again(connection, n)


def note_changed_records(connection: Reading) -> None:
    """Note that what was read of records before may be out of date."""
    set_meta(connection, RECORDS_CHANGED, uuid.uuid4().hex)


def add_link(
    connection: Reading,
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


def add_links(connection: Reading, pairs: Iterable[tuple[int, int]], kind: str) -> None:
    """Link many records, each source with its target, where they are not linked yet."""
    shared = {"kind": kind, "weight": 1.0, "created_at": now()}
    rows = [{"source": one, "target": other, **shared} for one, other in pairs]
    if rows:
        connection.execute(upsert(links).on_conflict_do_nothing(), rows)


def add_effect(
    connection: Reading,
    n: int,
    op: str,
    change: Change,
    new_values: Columns,
    *,
    by_record: int | None = None,
    words: Words | None = None,
    at: datetime | None = None,
) -> None:
    """Store an effect; the caller computes the record's state anew.

    Args:
        connection: of a write transaction.
        n: the record's number.
        op: what is done to it, see `effects.py`.
        change: who does it; effects of one change are undone together.
        new_values: what it sets.
        by_record: the record that takes its place, or adds a detail.
        words: those that do it, where a message does.
        at: when it was done, in UTC without a zone; None is now.
    """
    # a copy: these are the attributes themselves
    row = {} if words is None else dict(vars(words))
    row |= {"change": change.id, "by": change.by, "reason": change.reason}
    row |= {"record": n, "op": op, "by_record": by_record, "new_values": new_values}
    connection.execute(insert(effects).values(**row, at=at or now()))


def _index_again(connection: Reading, n: int) -> None:
    """Mark a record whose status has changed: Chroma holds vectors of active records
    only.
    """
    held = select(func.count()).where(vectors.c.layer == RECORDS, vectors.c.item == n)
    if connection.scalar(held):
        row = upsert(outbox).values(layer=RECORDS, item=n, task=INDEX)
        connection.execute(row.on_conflict_do_nothing())


def active_with_hash(connection: Reading, content_hash: str) -> int | None:
    """The number of the active record with this content hash, or of the hidden one, if
    any.
    """
    same = select(records.c.n).filter_by(content_hash=content_hash)
    same = same.where(records.c.status.in_((ACTIVE, HIDDEN)))
    return connection.scalar(same.order_by(records.c.n.desc()).limit(1))


def free_id(connection: Reading, record_id: str) -> str:
    """The id, or, if a stored record has it, a variant of it that is free."""
    number = 1
    candidate = record_id
    while connection.scalar(
        select(records.c.n).where(records.c.record_id == candidate)
    ):
        number += 1
        candidate = f"{record_id}~{number}"
    return candidate
