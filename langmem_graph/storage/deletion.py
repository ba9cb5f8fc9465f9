"""Forgetting messages, sessions and records, and erasing a user.

A record that cites a forgotten message is deleted as a whole, since its text may repeat what the
message said; the other messages it cites are extracted again. A record that only forgotten ones had
superseded becomes active again.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import product

from sqlalchemy import Connection, delete, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import (
    ClosedMemoryError,
    ForkedProcessError,
    InvalidInputError,
    StorageError,
)
from langmem_graph.messages import session_key
from langmem_graph.reports import EraseReport, ForgetReport
from langmem_graph.storage import (
    message_queries,
    pending_messages,
    record_queries,
    record_writes,
    secure_delete,
    vector_rows,
)
from langmem_graph.storage.directory_and_lock import remove_folder
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.message_writes import BEFORE
from langmem_graph.storage.record_writes import SUPERSEDES, Change
from langmem_graph.storage.tables_and_migrations import (
    MESSAGES,
    READ_ROLES,
    RECORDS,
    attributes,
    clusters,
    files,
    history,
    links,
    messages,
    meta,
    outbox,
    record_sources,
    sessions,
    unread,
    vectors,
)
from langmem_graph.storage.tables_and_migrations import records as records_table

_log = logging.getLogger(__name__)


@dataclass
class Forgotten:
    """The numbers of the deleted messages and records, and what else has changed."""

    messages: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    """Records that are active again."""
    files: int = 0
    """How many topic tracks and profiles were deleted."""
    read_again: int = 0
    """How many messages are pending again."""


def forget(
    services: Services,
    user_id: str,
    *,
    record: str | None,
    message: str | None,
    session: str | None,
) -> ForgetReport:
    """Delete the record, message or session of an id, with everything derived from it.

    Raises:
        InvalidInputError: none of the three, or several, were given.
    """
    if sum(name is not None for name in (record, message, session)) != 1:
        raise InvalidInputError("Name one thing to forget: record=…, message=… or session=….")
    if not services.has(user_id):
        return ForgetReport()
    with services.room(user_id) as room:
        with room.working, room.database.write_transaction() as connection:
            done = _forget(connection, record, message, session)
            if done.messages or done.records:
                secure_delete.note_deletion(connection)
        secure_delete.finish_deletion(room)
        services.drain(room, at_least=services.settings.storage.index_batch)
    return ForgetReport(
        messages=len(done.messages),
        records=len(done.records),
        restored=len(done.restored),
        files=done.files,
        read_again=done.read_again,
    )


def _forget(
    connection: Connection, record: str | None, message: str | None, session: str | None
) -> Forgotten:
    if record is not None:
        return forget_records(connection, record_queries.numbers_of(connection, [record]).values())
    if message is not None:
        known = record_queries.message_numbers(connection, [message]).values()
        return forget_messages(connection, [n for n, _, _ in known])
    of_session = select(messages.c.n).join(sessions, sessions.c.n == messages.c.session)
    named = of_session.where(sessions.c.session_id == session_key(session))
    return forget_messages(connection, list(connection.scalars(named)))


def forget_messages(connection: Connection, items: Collection[int]) -> Forgotten:
    """Delete messages with everything derived from them."""
    affected = select(messages.c.session).where(messages.c.n.in_(items)).distinct()
    affected_sessions = list(connection.scalars(affected))
    citing = select(record_sources.c.record).where(record_sources.c.message.in_(items))
    done = forget_records(connection, list(connection.scalars(citing.distinct())), items)
    _drop_layer(connection, MESSAGES, items)
    connection.execute(delete(unread).where(unread.c.message.in_(items)))
    connection.execute(delete(messages).where(messages.c.n.in_(items)))
    MESSAGE_WORDS.drop(connection, items)
    for session in affected_sessions:
        _update_session(connection, session)
    done.messages = sorted(items)
    return done


def forget_records(
    connection: Connection, items: Collection[int], gone: Collection[int] = ()
) -> Forgotten:
    """Delete records with their history, their links and the files that may repeat them.

    Args:
        connection: a write transaction.
        items: the records' numbers.
        gone: messages that are being forgotten; the records' other messages are extracted again.
    """
    done = Forgotten(records=sorted(items))
    if items or gone:
        done.files = _drop_files(connection)
    if not items:
        return done
    if gone:
        done.read_again = _read_again(connection, items, gone)
    _relink(connection, items)
    older = _superseded_only_by(connection, items)
    ends = links.c.source.in_(items) | links.c.target.in_(items)
    connection.execute(delete(links).where(ends))
    _drop_changes(connection, items)
    connection.execute(delete(record_sources).where(record_sources.c.record.in_(items)))
    RECORD_WORDS.drop(connection, items)
    _drop_layer(connection, RECORDS, items)
    connection.execute(update(records_table).values(cluster=None))
    connection.execute(delete(clusters))  # a sum of vectors would keep the deleted ones' share
    connection.execute(delete(records_table).where(records_table.c.n.in_(items)))
    used = select(records_table.c.attribute).where(records_table.c.attribute.is_not(None))
    connection.execute(delete(attributes).where(attributes.c.n.not_in(used)))
    for n in older:
        change = Change.new("forget", "what took its place was forgotten")
        values = {"status": "active", "valid_to": None}
        record_writes.change_record(connection, n, "restore", change, values)
    done.restored = sorted(older)
    return done


def _superseded_only_by(connection: Connection, items: Collection[int]) -> set[int]:
    """Records that were superseded by these records only."""
    link = links.c
    by_these = select(link.target).where(link.kind == SUPERSEDES, link.source.in_(items))
    older = set(connection.scalars(by_these)) - set(items)
    kept = select(records_table.c.n).where(records_table.c.status != "discarded")
    others = select(link.target).where(
        link.kind == SUPERSEDES,
        link.target.in_(older),
        link.source.not_in(items),
        link.source.in_(kept),
    )
    freed = record_queries.facts_of(connection, older - set(connection.scalars(others)))
    return {n for n, facts in freed.items() if facts.status == "superseded"}


def _read_again(connection: Connection, items: Collection[int], gone: Collection[int]) -> int:
    """Mark the records' remaining messages as pending, and count them."""
    kept = (
        select(record_sources.c.message)
        .join(messages, messages.c.n == record_sources.c.message)
        .where(
            record_sources.c.record.in_(items),
            record_sources.c.message.not_in(gone),
            messages.c.role.in_(READ_ROLES),
        )
    )
    rows = [{"message": n} for n in set(connection.scalars(kept))]
    if rows:
        connection.execute(upsert(unread).on_conflict_do_nothing(), rows)
    return len(rows)


def _drop_files(connection: Connection) -> int:
    """Delete all topic tracks and the profile: they may repeat more than they cite."""
    pending_messages.next_generation(connection)  # answers still under way must not be stored
    keys = ("scene", "topic_checkpoint", "topic_retry", "topic_session")
    connection.execute(delete(meta).where(meta.c.key.in_(keys)))
    return connection.execute(delete(files)).rowcount


def _relink(connection: Connection, items: Collection[int]) -> None:
    """Link what a forgotten record had superseded to the records that had superseded it."""
    kinds = links.c.kind == SUPERSEDES
    for n in items:
        newer = list(connection.scalars(select(links.c.source).where(kinds, links.c.target == n)))
        older = list(connection.scalars(select(links.c.target).where(kinds, links.c.source == n)))
        for source, target in product(newer, older):
            record_writes.add_link(connection, source, target, SUPERSEDES)


def _drop_changes(connection: Connection, items: Collection[int]) -> None:
    """Delete the records' history, and the reasons of changes that they were part of."""
    changes = select(history.c.change).where(history.c.record.in_(items))
    shared = history.c.change.in_(changes) & history.c.record.not_in(items)
    shared &= history.c.op != "undo"  # its reason is the id of the change that was undone
    connection.execute(update(history).where(shared).values(reason=None))
    connection.execute(delete(history).where(history.c.record.in_(items)))


def _drop_layer(connection: Connection, layer: str, items: Iterable[int]) -> None:
    for table in (vectors, outbox):
        rows = (table.c.layer == layer) & table.c.item.in_(list(items))
        connection.execute(delete(table).where(rows))


def _update_session(connection: Connection, session: int) -> None:
    """Index the remaining messages anew and correct the centroid; delete an empty session."""
    m = messages.c
    spoken = select(m.n, m.text, m.name).where(m.session == session, m.role != "system")
    rows = connection.execute(spoken.order_by(m.n)).all()
    if not connection.scalar(select(m.n).where(m.session == session).limit(1)):
        connection.execute(delete(sessions).where(sessions.c.n == session))
        return
    for place, row in enumerate(rows):
        earlier = "\n".join(before.text for before in rows[max(0, place - BEFORE) : place])
        own = f"{row.name}: {row.text}" if row.name else row.text
        MESSAGE_WORDS.drop(connection, [row.n])
        MESSAGE_WORDS.add(connection, {row.n: (own, earlier)})
    held = vector_rows.vectors_of(connection, [row.n for row in rows])
    total = held.matrix.sum(axis=0).astype("float32").tobytes() if len(held) else None
    counted = {"vector_sum": total, "vector_count": len(held)}
    connection.execute(update(sessions).where(sessions.c.n == session).values(**counted))


def erase(services: Services, user_id: str) -> EraseReport:
    """Delete a user's folder, and, with a Chroma server, the user's collections there first.

    Raises:
        StorageError: files could not be deleted, or the ledger that names the collections cannot
            be read.
    """
    services.check_open()
    if not services.directory.folder(user_id).exists():
        return EraseReport(messages=0, files=0, bytes=0)
    messages = _drop_collections(services, user_id)
    with services.directory.emptied(user_id) as folder:
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        remove_folder(folder)
    return EraseReport(messages=messages, files=len(files), bytes=size)


def _drop_collections(services: Services, user_id: str) -> int:
    """Delete a server's collections; returns how many messages the ledger held, 0 if unreadable."""
    try:
        with services.directory.room(user_id) as room:
            if not room.index.embedded:
                room.index.drop()
            return room.database.read(message_queries.counts).messages
    except (ClosedMemoryError, ForkedProcessError):
        raise
    except StorageError as error:
        if services.directory.server is not None:  # only the ledger knows the collections' names
            raise
        _log.warning("erasing a ledger that cannot be read: %s", error)
        return 0
