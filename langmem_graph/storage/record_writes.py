"""Storing and changing records; every change keeps what was there before, and can be undone.

Nothing here deletes: a record that no longer holds keeps its row, its dates and its history.
"""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.schemas import Record
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.tables_and_migrations import (
    ACTIVE,
    EMBED,
    INDEX,
    RECORDS,
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
"""The key of the latest time at which a stored record takes effect in the future."""
SUPERSEDES, REFINES = "supersedes", "refines"
BY_HAND = "user"
_PLAIN = (
    *("record_id", "text", "kind", "facet", "project", "confirmation", "status"),
    *("priority", "scene", "entities", "made_by"),
)
_DATES = ("valid_to", "valid_from", "said_at")


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


def naive(at: datetime | None) -> datetime | None:
    """A time in UTC without its zone, as the ledger stores times."""
    return None if at is None else at.astimezone(UTC).replace(tzinfo=None)


def now() -> datetime:
    """The present time, as the ledger stores times."""
    return datetime.now(UTC).replace(tzinfo=None)


def insert_record(
    connection: Connection, record: Record, content_hash: str, sources: Iterable[int], by: Change
) -> int:
    """Store a record with its words, due work, sources and first history entry; its number."""
    row = {name: getattr(record, name) for name in _PLAIN}
    row |= {name: naive(getattr(record, name)) for name in ("said_at", "valid_from", "valid_to")}
    row |= {name: naive(getattr(record, name)) for name in ("created_at", "updated_at")}
    row |= {"event": record.event_time, "verbatim": record.values, "content_hash": content_hash}
    row["attribute"] = attribute_number(connection, record.subject, record.attribute)
    made = insert(records).values(**row).returning(records.c.n)
    n: int = connection.execute(made).scalar_one()
    if record.valid_from > max(record.said_at, datetime.now(UTC)):
        effective = f"{naive(record.valid_from)}"
        set_meta(connection, TO_COME, max(get_meta(connection, TO_COME) or "", effective))
    add_sources(connection, n, sources)
    RECORD_WORDS.add(connection, {n: [record.text]})
    connection.execute(insert(outbox).values(layer=RECORDS, item=n, task=EMBED))
    _log(connection, n, "create", by, None)
    return n


def attribute_number(connection: Connection, subject: str | None, name: str | None) -> int | None:
    """The number of a subject's attribute, which is created if new; None without a subject."""
    if not subject:
        return None
    key = {"subject": plain(subject), "name": plain(name or "")}
    connection.execute(upsert(attributes).values(**key).on_conflict_do_nothing())
    number: int = connection.execute(select(attributes.c.n).filter_by(**key)).scalar_one()
    return number


def plain(name: str) -> str:
    """A subject's or attribute's name in a form that ignores case and spacing."""
    return " ".join(name.casefold().split())


def add_sources(connection: Connection, n: int, sources: Iterable[int]) -> None:
    """Add messages to those that a record cites."""
    rows = [{"record": n, "message": message} for message in sources]
    if rows:
        connection.execute(upsert(record_sources).on_conflict_do_nothing(), rows)


def change_record(
    connection: Connection, n: int, op: str, by: Change, values: dict[str, Any]
) -> None:
    """Set columns of a record to new values, and keep the former ones in its history."""
    columns = [records.c[name] for name in values]
    old = connection.execute(select(*columns).where(records.c.n == n)).one()._mapping
    before = {name: _jsonable(old[name]) for name in values}
    stamped = values | {"updated_at": now()}
    connection.execute(update(records).where(records.c.n == n).values(**stamped))
    _log(connection, n, op, by, before)
    if "status" in values:
        _index_again(connection, n)


def supersede(connection: Connection, old: int, new: int, at: datetime, by: Change) -> None:
    """Let the old record end at `at`, where the new one takes its place; the old one is kept."""
    add_link(connection, new, old, SUPERSEDES)
    if connection.scalar(select(records.c.status).where(records.c.n == old)) != ACTIVE:
        return  # it has ended already
    change_record(connection, old, "supersede", by, {"status": "superseded", "valid_to": naive(at)})


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
    """Link two records; a link that exists already gets the new weight, scorer and origin."""
    row = {"source": source, "target": target, "kind": kind, "weight": weight}
    row |= {"scorer": scorer, "origin": origin, "created_at": now()}
    latest = {name: row[name] for name in ("weight", "scorer", "origin")}
    made = upsert(links).values(**row)
    keys = ["source", "target", "kind"]
    connection.execute(made.on_conflict_do_update(index_elements=keys, set_=latest))


def _log(
    connection: Connection, n: int, op: str, by: Change, before: dict[str, Any] | None
) -> None:
    entry = {"change": by.id, "record": n, "op": op, "at": now(), "by": by.by}
    connection.execute(insert(history).values(**entry, reason=by.reason, before=before))


def _jsonable(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _index_again(connection: Connection, n: int) -> None:
    """Mark a record whose status has changed: Chroma holds vectors of active records only."""
    held = select(func.count()).where(vectors.c.layer == RECORDS, vectors.c.item == n)
    if connection.scalar(held):
        row = upsert(outbox).values(layer=RECORDS, item=n, task=INDEX)
        connection.execute(row.on_conflict_do_nothing())


def latest_change(connection: Connection, n: int) -> list[Row[Any]]:
    """The history entries of a record's latest change, for all records it touched, last first."""
    latest = connection.scalar(
        _not_undone()
        .with_only_columns(history.c.change)
        .where(history.c.record == n)
        .order_by(history.c.n.desc())
        .limit(1)
    )
    entries = select(history).where(history.c.change == latest).order_by(history.c.n.desc())
    return list(connection.execute(entries)) if latest else []


def _not_undone() -> Select[Any]:
    """Changes that have not been undone."""
    undone = select(history.c.reason).where(history.c.op == "undo", history.c.reason.is_not(None))
    ops = history.c.op.not_in(("undo", "restore"))
    return select(history).where(ops, history.c.change.not_in(undone))


def changed_since(connection: Connection, entries: Sequence[Row[Any]]) -> list[int]:
    """Numbers of the records that later changes, which build on this one, touched; latest first."""
    later: dict[int, None] = {}
    for entry in entries:
        restored = select(func.max(history.c.n)).where(
            history.c.record == entry.record, history.c.op == "restore"
        )
        since = max(entry.n, connection.scalar(restored) or 0)
        on_top = _not_undone().where(history.c.record == entry.record, history.c.n > since)
        changes = [row.change for row in connection.execute(on_top) if row.change != entry.change]
        touched = select(history.c.record).where(history.c.change.in_(changes))
        later |= dict.fromkeys(connection.scalars(touched.order_by(history.c.n.desc())))
    return sorted(later, reverse=True)


def take_back(connection: Connection, entries: Sequence[Row[Any]], by: Change) -> list[int]:
    """Undo a change in all records that it touched, and return their numbers."""
    for entry in entries:
        undoing = Change(by.by, entry.change, by.id)
        values = {"status": "discarded"} if entry.before is None else _restored(entry.before)
        change_record(connection, entry.record, "undo", undoing, values)
    return sorted({entry.record for entry in entries})


def _restored(before: dict[str, Any]) -> dict[str, Any]:
    return {
        name: datetime.fromisoformat(value) if name in _DATES and value else value
        for name, value in before.items()
    }


def active_with_hash(connection: Connection, hashes: Sequence[str]) -> dict[str, int]:
    """The numbers of the active records with these content hashes, by hash."""
    same = select(records.c.content_hash, records.c.n).where(
        records.c.status == ACTIVE, records.c.content_hash.in_(hashes)
    )
    return {row.content_hash: row.n for row in connection.execute(same)}


def free_id(connection: Connection, record_id: str) -> str:
    """The id, or, if a stored record has it, a variant of it that is free."""
    number, candidate = 1, record_id
    while connection.scalar(select(records.c.n).where(records.c.record_id == candidate)):
        number += 1
        candidate = f"{record_id}~{number}"
    return candidate
