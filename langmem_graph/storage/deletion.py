"""What forgetting deletes from the ledger: messages, and everything that was made of them.

A record made of a forgotten message goes whole, since its sentence may hold what was said there;
its other messages are read anew. A record that a forgotten one had superseded is true again.
"""

import logging
from collections.abc import Callable, Collection, Iterable
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
    embed_and_index,
    extraction_queue,
    message_queries,
    record_queries,
    record_writes,
    secure_delete,
    stored_vectors,
)
from langmem_graph.storage.directory import remove_folder
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS
from langmem_graph.storage.record_writes import SUPERSEDES, Change
from langmem_graph.storage.services import Services
from langmem_graph.storage.tables import (
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
from langmem_graph.storage.tables import records as records_table

BEFORE = 2  # as in appending: later messages are found by the words of the two before them

_log = logging.getLogger(__name__)


@dataclass
class Forgotten:
    """What was deleted."""

    messages: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    restored: list[int] = field(default_factory=list)
    files: int = 0
    read_again: int = 0


def messages_of_session(connection: Connection, session_id: str) -> list[int]:
    """The numbers of a session's messages."""
    own = select(messages.c.n).join(sessions, sessions.c.n == messages.c.session)
    return list(connection.scalars(own.where(sessions.c.session_id == session_id)))


def forget_messages(connection: Connection, items: Collection[int]) -> Forgotten:
    """Delete messages with everything derived from them."""
    touched = select(messages.c.session).where(messages.c.n.in_(items)).distinct()
    in_sessions = list(connection.scalars(touched))
    citing = select(record_sources.c.record).where(record_sources.c.message.in_(items))
    done = forget_records(connection, list(connection.scalars(citing.distinct())), items)
    _drop_layer(connection, MESSAGES, items)
    connection.execute(delete(unread).where(unread.c.message.in_(items)))
    connection.execute(delete(messages).where(messages.c.n.in_(items)))
    MESSAGE_WORDS.drop(connection, items)
    for session in in_sessions:
        _settle_session(connection, session)
    done.messages = sorted(items)
    return done


def forget_records(
    connection: Connection, items: Collection[int], gone: Collection[int] = ()
) -> Forgotten:
    """Delete records with their history, edges and what cites them.

    Args:
        connection: a write transaction.
        items: the records' numbers.
        gone: messages that are being forgotten; the records' other messages are read anew.
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
    connection.execute(delete(clusters))  # they are made anew; a sum would keep what it was made of
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
    """Records that nothing but these has superseded."""
    link = links.c
    by_these = select(link.target).where(link.kind == SUPERSEDES, link.source.in_(items))
    older = set(connection.scalars(by_these)) - set(items)
    standing = select(records_table.c.n).where(records_table.c.status != "discarded")
    others = select(link.target).where(
        link.kind == SUPERSEDES,
        link.target.in_(older),
        link.source.not_in(items),
        link.source.in_(standing),
    )
    still = record_queries.facts_of(connection, older - set(connection.scalars(others)))
    return {n for n, facts in still.items() if facts.status == "superseded"}


def _read_again(connection: Connection, items: Collection[int], gone: Collection[int]) -> int:
    """The records' messages that stay are unread once more."""
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
    """All tracks and the profile: a story may tell what it does not cite. They are made anew."""
    extraction_queue.next_generation(connection)  # what a model is writing right now is not stored
    keys = ("scene", "topic_checkpoint", "topic_retry", "topic_session")
    connection.execute(delete(meta).where(meta.c.key.in_(keys)))
    return connection.execute(delete(files)).rowcount


def _relink(connection: Connection, items: Collection[int]) -> None:
    """What a forgotten record had superseded is superseded by what had superseded that one."""
    kinds = links.c.kind == SUPERSEDES
    for n in items:
        newer = list(connection.scalars(select(links.c.source).where(kinds, links.c.target == n)))
        older = list(connection.scalars(select(links.c.target).where(kinds, links.c.source == n)))
        for source, target in product(newer, older):
            record_writes.add_link(connection, source, target, SUPERSEDES)


def _drop_changes(connection: Connection, items: Collection[int]) -> None:
    """The records' own history, and the reasons of changes they were part of."""
    changes = select(history.c.change).where(history.c.record.in_(items))
    shared = history.c.change.in_(changes) & history.c.record.not_in(items)
    shared &= history.c.op != "undo"  # theirs names the change that was taken back
    connection.execute(update(history).where(shared).values(reason=None))
    connection.execute(delete(history).where(history.c.record.in_(items)))


def _drop_layer(connection: Connection, layer: str, items: Iterable[int]) -> None:
    for table in (vectors, outbox):
        own = (table.c.layer == layer) & table.c.item.in_(list(items))
        connection.execute(delete(table).where(own))


def _settle_session(connection: Connection, session: int) -> None:
    """Words of neighbours and the centroid, without what is gone; an empty session goes too."""
    m = messages.c
    spoken = select(m.n, m.text, m.name).where(m.session == session, m.role != "system")
    rows = connection.execute(spoken.order_by(m.n)).all()
    if not connection.scalar(select(m.n).where(m.session == session).limit(1)):
        connection.execute(delete(sessions).where(sessions.c.n == session))
        return
    for place, row in enumerate(rows):
        earlier = "\n".join(one.text for one in rows[max(0, place - BEFORE) : place])
        own = f"{row.name}: {row.text}" if row.name else row.text
        MESSAGE_WORDS.drop(connection, [row.n])
        MESSAGE_WORDS.add(connection, {row.n: (own, earlier)})
    _recount(connection, session, [row.n for row in rows])


def _recount(connection: Connection, session: int, items: list[int]) -> None:
    held = stored_vectors.vectors_of(connection, items)
    total = held.matrix.sum(axis=0).astype("float32").tobytes() if len(held) else None
    counted = {"vector_sum": total, "vector_count": len(held)}
    connection.execute(update(sessions).where(sessions.c.n == session).values(**counted))


def forget(
    services: Services,
    user_id: str,
    *,
    record: str | None,
    message: str | None,
    session: str | None,
) -> ForgetReport:
    """Delete what is named."""
    if sum(one is not None for one in (record, message, session)) != 1:
        raise InvalidInputError("Name one thing to forget: record=…, message=… or session=….")
    if not services.has(user_id):
        return ForgetReport()
    if record is not None:
        return _forget(services, user_id, lambda c: _record(c, str(record)))
    if message is not None:
        return _forget(services, user_id, lambda c: _message(c, str(message)))
    return _forget(services, user_id, lambda c: _session(c, session_key(session)))


def _record(connection: Connection, record_id: str) -> Forgotten:
    numbers = record_queries.numbers_of(connection, [record_id])
    return forget_records(connection, list(numbers.values()))


def _message(connection: Connection, message_id: str) -> Forgotten:
    found = record_queries.message_numbers(connection, [message_id])
    return forget_messages(connection, [n for n, _, _ in found.values()])


def _session(connection: Connection, session_id: str) -> Forgotten:
    items = messages_of_session(connection, session_id)
    return forget_messages(connection, items)


def _forget(
    services: Services, user_id: str, work: Callable[[Connection], Forgotten]
) -> ForgetReport:
    with services.room(user_id) as room:
        with room.working:
            with room.database.write_transaction() as connection:
                done = work(connection)
                if done.messages or done.records:
                    secure_delete.note_deletion(connection)
            if secure_delete.is_unfinished(room):  # perhaps of an earlier call that failed
                secure_delete.wipe_deleted(room)
        embed_and_index.drain_all(
            room,
            services.embedder,
            services.settings,
            at_least=services.settings.storage.index_batch,
        )
    return ForgetReport(
        messages=len(done.messages),
        records=len(done.records),
        restored=len(done.restored),
        files=done.files,
        read_again=done.read_again,
    )


def erase(services: Services, user_id: str) -> EraseReport:
    """Delete the user's vectors and folder; with a Chroma server, the collection there first."""
    services.check_open()
    if not services.directory.folder(user_id).exists():
        return EraseReport(messages=0, files=0, bytes=0)
    messages = _leave_index(services, user_id)
    with services.directory.emptied(user_id) as folder:
        files = [file for file in folder.rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files)
        remove_folder(folder)
    return EraseReport(messages=messages, files=len(files), bytes=size)


def _leave_index(services: Services, user_id: str) -> int:
    """Drop what a server holds; returns the number of messages, 0 if the ledger is unreadable."""
    try:
        with services.directory.room(user_id) as room:
            if not room.index.embedded:
                room.index.drop()
            with room.database.read_transaction() as connection:
                return message_queries.counts(connection).messages
    except (ClosedMemoryError, ForkedProcessError):
        raise
    except StorageError as error:
        if services.directory.uses_server:  # its collection is known to the ledger alone
            raise
        _log.warning("erasing a ledger that cannot be read: %s", error)
        return 0
