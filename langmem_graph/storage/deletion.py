"""Deleting messages and records with what was made of them, and erasing a user.

A record that a forgotten message carries is deleted as a whole, since its text may
repeat what the message said. What was done to other records is taken back in
`forget_effects.py`.

Of deleted messages a hash of their ids is kept: a thread sends them again with every
turn. It is kept by the application's checkpointer, where `forget` and `expire` do not
reach.
"""

import re
from collections.abc import Iterable
from hashlib import sha256

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import LangMemGraphError
from langmem_graph.ids_and_times import is_unique
from langmem_graph.messages import UNNAMED
from langmem_graph.reports import EraseReport, ForgetReport
from langmem_graph.rooms import shared_name
from langmem_graph.storage import call_log, pending_messages, vector_rows
from langmem_graph.storage.forget_effects import Numbers, forget_effects
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS, words_of
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.number_lists import portions, rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.rounds import FILE_KEYS
from langmem_graph.storage.tables import (
    DELETED_ID,
    MESSAGES,
    READ_ROLES,
    RECORDS,
    SPOKEN,
    attributes,
    clusters,
    files,
    message_values,
    messages,
    meta,
    note_deleted_vectors,
    outbox,
    record_sources,
    removed_words,
    sessions,
    unread,
    vectors,
)
from langmem_graph.storage.tables import records as records_table
from langmem_graph.storage.where_conditions import having

_GIVEN_HERE = re.compile(
    rf"m-[0-9a-f]{{32}}|(?:{UNNAMED}|remembered-|corrected-|noted-).*", re.DOTALL
)
"""Ids that memory gave: the first kind is a hash of the text, of which nothing is to be
left; nobody sends the others again.
"""
_COPY = re.compile(r"~\d+$")
"""Ends the id of a message that was stored beside another one with the id that it came
with.
"""


def forget_messages(connection: Reading, items: Numbers) -> ForgetReport:
    """Delete messages with everything derived from them."""
    sources = record_sources.c
    carried = select(sources.record).where(
        sources.message.in_(items), ~sources.supporting
    )
    done = forget_records(
        connection, list(connection.scalars(carried.distinct())), items
    )
    call_log.forget_calls(connection, items)
    drop_messages(connection, items)
    return done.model_copy(update={"messages": len(items)})


def drop_messages(connection: Reading, items: Numbers) -> None:
    """Delete the rows of messages; what they did to records was taken care of."""
    affected = select(messages.c.session).where(messages.c.n.in_(items)).distinct()
    affected_sessions = list(connection.scalars(affected))
    connection.execute(
        delete(record_sources).where(record_sources.c.message.in_(items))
    )
    drop_layer(connection, MESSAGES, items)
    named = select(sessions.c.session_id, messages.c.message_id).join_from(
        messages, sessions
    )
    gone = connection.execute(named.where(messages.c.n.in_(items))).all()
    note_deleted(connection, map(tuple, gone))
    connection.execute(delete(unread).where(unread.c.message.in_(items)))
    _drop_removed_words(connection, messages.name, items)
    asked = removed_words.c.request.in_(items)
    connection.execute(delete(removed_words).where(asked))
    connection.execute(
        delete(message_values).where(message_values.c.message.in_(items))
    )
    connection.execute(delete(messages).where(messages.c.n.in_(items)))
    MESSAGE_WORDS.drop(connection, items)
    for session in affected_sessions:
        update_session(connection, session)


def forget_records(
    connection: Reading, items: Numbers, gone: Numbers = ()
) -> ForgetReport:
    """Delete records with their history, their links and the files that may repeat
    them.

    `gone` are messages that are being forgotten: what they did to other records is
    taken back, and the other messages of the deleted records are extracted again.
    """
    files = drop_files(connection) if items or gone else 0
    again = _read_again(connection, items, gone) if items and gone else 0
    restored = forget_effects(connection, items, gone)
    if items:
        drop_records(connection, items)
    return ForgetReport(
        records=len(items), restored=len(restored), files=files, read_again=again
    )


def drop_records(connection: Reading, items: Numbers) -> None:
    """Delete the rows of records; what they did to others was taken care of."""
    cited = select(record_sources.c.message).where(record_sources.c.record.in_(items))
    call_log.forget_words(connection, list(connection.scalars(cited)))
    connection.execute(delete(record_sources).where(record_sources.c.record.in_(items)))
    RECORD_WORDS.drop(connection, items)
    _drop_removed_words(connection, records_table.name, items)
    drop_layer(connection, RECORDS, items)
    connection.execute(update(records_table).values(cluster=None))
    # a sum of vectors would keep the deleted ones' share
    connection.execute(delete(clusters))
    connection.execute(delete(records_table).where(records_table.c.n.in_(items)))
    drop_unused_attributes(connection)


def drop_unused_attributes(connection: Reading) -> None:
    """Delete the names of attributes that no record has any more."""
    used = select(records_table.c.attribute).where(
        records_table.c.attribute.is_not(None)
    )
    connection.execute(delete(attributes).where(attributes.c.n.not_in(used)))


def _read_again(connection: Reading, items: Numbers, gone: Numbers) -> int:
    """Mark the records' remaining messages as pending, and count them."""
    kept = (
        select(record_sources.c.message)
        .join(messages, messages.c.n == record_sources.c.message)
        .where(
            record_sources.c.record.in_(items),
            record_sources.c.message.not_in(gone),
            messages.c.role.in_(READ_ROLES) & SPOKEN,
        )
    )
    rows = [{"message": n} for n in set(connection.scalars(kept))]
    if rows:
        connection.execute(upsert(unread).on_conflict_do_nothing(), rows)
    return len(rows)


def drop_files(connection: Reading) -> int:
    """Delete all topic tracks and the profile: they may repeat more than they cite."""
    # answers still under way must not be stored
    pending_messages.next_generation(connection)
    keys = ("scene", *FILE_KEYS)
    connection.execute(delete(meta).where(meta.c.key.in_(keys)))
    call_log.forget_words(connection, None)
    return connection.execute(delete(files)).rowcount


def _drop_removed_words(connection: Reading, layer: str, items: Numbers) -> None:
    """Delete what is kept of these rows from before words of them were removed."""
    rows = (removed_words.c.layer == layer) & removed_words.c.item.in_(list(items))
    connection.execute(delete(removed_words).where(rows))


def drop_layer(connection: Reading, layer: str, items: Iterable[int]) -> None:
    """Delete the vectors of these items, and the work that is due for them."""
    note_deleted_vectors(connection)
    for table in (vectors, outbox):
        rows = (table.c.layer == layer) & table.c.item.in_(list(items))
        connection.execute(delete(table).where(rows))


def update_session(connection: Reading, session: int) -> None:
    """Index the remaining messages anew and correct the centroid; delete an empty
    session.
    """
    m = messages.c
    spoken = select(m.n, m.name, m.text).where(m.session == session, SPOKEN)
    rows = connection.execute(spoken.order_by(m.n)).all()
    if not connection.scalar(select(m.n).where(m.session == session).limit(1)):
        connection.execute(delete(sessions).where(sessions.c.n == session))
        return
    numbers = [n for n, _, _ in rows]
    MESSAGE_WORDS.drop(connection, numbers)
    MESSAGE_WORDS.add(connection, words_of([tuple(row) for row in rows]))
    held = vector_rows.vectors_of(connection, numbers)
    total = held.matrix.sum(axis=0).astype("float32").tobytes() if len(held) else None
    counted = {"vector_sum": total, "vector_count": len(held)}
    connection.execute(
        update(sessions).where(sessions.c.n == session).values(**counted)
    )


def erase(services: Services, user_id: str) -> EraseReport:
    """Delete everything of a user: rows or the folder, and vectors on a Chroma server
    first.
    """
    services.check_open()
    report = services.directory.erase(user_id)
    if shared_name(user_id) is not None:
        return report
    try:
        return report.model_copy(
            update={"shared_rooms": _rooms_with_words_of(services, user_id)}
        )
    except LangMemGraphError as error:  # the user is erased all the same
        unknown = (
            f"Not every shared room could be looked at for words of the user: {error}"
        )
        return report.model_copy(update={"warnings": [unknown]})


def _rooms_with_words_of(services: Services, author: str) -> dict[str, int]:
    """The shared rooms that hold messages of this user, and how many."""
    written = select(func.count()).select_from(having("author", author).subquery())

    def count(connection: Reading, key: str) -> tuple[str, int]:
        return shared_name(key) or "", connection.scalar(written) or 0

    found = services.directory.read_each(count, shared=True)
    return {room: messages for room, messages in found if messages}


def note_deleted(connection: Reading, named: Iterable[tuple[str, str]]) -> None:
    """Note that messages of these sessions and ids are deleted, in the transaction that
    does so.
    """
    ids = {one for one in named if not _GIVEN_HERE.fullmatch(one[1])}
    ids |= {
        (session, _COPY.sub("", name)) for session, name in ids if not is_unique(name)
    }
    rows = [{"key": key, "value": ""} for key in {_key(*one) for one in ids}]
    for some in portions(rows):
        connection.execute(upsert(meta).on_conflict_do_nothing(), list(some))


def deleted_among(connection: Reading, session: str, ids: Iterable[str]) -> set[str]:
    """Those of these ids whose messages were deleted."""
    keys = {_key(session, name): name for name in ids}
    return {
        keys[row.key]
        for row in rows_where_in(connection, select(meta.c.key), meta.c.key, keys)
    }


def _key(session: str, message_id: str) -> str:
    named = message_id if is_unique(message_id) else f"{session}\0{message_id}"
    return f"{DELETED_ID}{sha256(named.encode()).hexdigest()[:32]}"
