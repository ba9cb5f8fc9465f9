"""Forgetting what is named: a record, a message or a session.

A forgotten record takes the sentences that say it with it: without its label, a message
would read as if what it says held now.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import select

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import item_key
from langmem_graph.reports import ForgetPreview, ForgetReport
from langmem_graph.schemas import Record
from langmem_graph.storage import message_queries, record_queries, removed_words
from langmem_graph.storage.deletion import forget_messages, forget_records
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.superseded_labels import labelled_records
from langmem_graph.storage.tables import SPOKEN, messages, record_sources, sessions
from langmem_graph.storage.tables import records as records_table
from langmem_graph.storage.user_room import note_deletion
from langmem_graph.storage.where_conditions import having

_END_OF_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|\n")
SHORTEST = 3  # characters of a value by which a sentence is told


def forget(services: Services, user_id: str, **named: str | None) -> ForgetReport:
    """Delete the `record`, `message` or `session` of an id, with everything derived
    from it.
    """
    checked = _checked(named)
    with services.known_room(user_id) as room:
        if room is None:
            return ForgetReport()
        with room.working, room.database.write_transaction() as connection:
            done = _forget(connection, **checked)
            if done.messages or done.records:
                note_deletion(connection)
        room.finish_deletion()
        services.drain(room, at_least=services.settings.storage.index_batch)
        return done.model_copy(update={"traces_left": room.traces_left is not None})


def preview(services: Services, user_id: str, **named: str | None) -> ForgetPreview:
    """What `forget` would do: it is done, looked at and taken back in one
    transaction.
    """
    checked = _checked(named)
    r = records_table.c
    held = select(r.n, r.status)
    with services.known_room(user_id) as room:
        if room is None:
            return ForgetPreview(report=ForgetReport())
        with room.database.write_transaction() as connection:
            before = dict(map(tuple, connection.execute(held).all()))
            with connection.begin_nested() as point:
                done = _forget(connection, **checked)
                after = dict(map(tuple, connection.execute(held).all()))
                point.rollback()
            touched = [n for n, status in before.items() if after.get(n) != status]
            whole = labelled_records(connection, touched)
        gone = [whole[n] for n in touched if n not in after]
        again = [whole[n] for n in touched if n in after]
        return ForgetPreview(report=done, records=gone, restored=again)


def _checked(named: Mapping[str, str | None]) -> dict[str, str]:
    """The one thing that is named, with its id as text."""
    keys = {name: item_key(given) for name, given in named.items() if given is not None}
    if len(keys) != 1:
        raise InvalidInputError(
            "Name one thing to forget: a record, a message or a session."
        )
    return keys


def _forget(
    connection: Reading,
    record: str | None = None,
    message: str | None = None,
    session: str | None = None,
    author: str | None = None,
) -> ForgetReport:
    if author is not None:
        return forget_messages(
            connection, list(connection.scalars(having("author", author)))
        )
    if record is not None:
        return _forget_record(connection, record)
    if message is not None:
        known = record_queries.message_numbers(connection, [message]).values()
        return forget_messages(connection, [n for n, _, _ in known])
    of_session = select(messages.c.n).join(sessions, sessions.c.n == messages.c.session)
    named = of_session.where(sessions.c.session_id == session)
    return forget_messages(connection, list(connection.scalars(named)))


def _forget_record(connection: Reading, record_id: str) -> ForgetReport:
    """Delete a record, and of its messages the sentences that say it."""
    numbers = record_queries.numbers_of(connection, [record_id])
    if record_id not in numbers:
        return ForgetReport()
    n = numbers[record_id]
    record = record_queries.records_by_number(connection, [n])[n]
    values = _values_of(record)
    said = set(_messages_of(connection, n))
    done = forget_records(connection, [n])
    shared = _carrying_others(connection, said)
    whole = forget_messages(connection, sorted(said - shared))
    changed = _take_sentences(connection, shared, values)
    holding = _holding(connection, values)
    untold = shared - changed if not values else set()
    kept = message_queries.messages_by_number(connection, holding | untold | changed)
    return done.model_copy(
        update={
            "messages": whole.messages,
            "files": done.files + whole.files,
            "shortened": [kept[one].id for one in sorted(changed)],
            "still_in": [kept[one].id for one in sorted(holding | untold)],
        }
    )


def _values_of(record: Record) -> list[str]:
    """The words by which a sentence that says the record is told."""
    words = [value.get(name) for value in record.values for name in ("raw", "value")]
    return [word for word in words if isinstance(word, str) and len(word) >= SHORTEST]


def _messages_of(connection: Reading, record: int) -> Sequence[int]:
    query = select(record_sources.c.message).where(record_sources.c.record == record)
    return connection.scalars(query).all()


def _carrying_others(connection: Reading, items: Iterable[int]) -> set[int]:
    """Those of these messages on which a record rests."""
    s = record_sources.c
    query = select(s.message).where(s.message.in_(list(items)))
    return set(connection.scalars(query))


def _take_sentences(
    connection: Reading, items: Iterable[int], values: Sequence[str]
) -> set[int]:
    """Take the sentences with one of these values out of messages."""
    today = datetime.now(UTC).date()
    changed = set[int]()
    texts = message_queries.messages_by_number(connection, items)
    for n, message in texts.items():
        sentences = _END_OF_SENTENCE.split(message.text)
        spans = [one for one in sentences if any(value in one for value in values)]
        words = removed_words.Words({n: spans}, {})
        done = removed_words.remove(connection, n, words, today, keep=False)
        changed |= done.messages
    return changed


def _holding(connection: Reading, values: Iterable[str]) -> set[int]:
    """The messages in which one of these values still stands."""
    found = set[int]()
    for value in values:
        has = messages.c.text.contains(value, autoescape=True)
        found |= set(connection.scalars(select(messages.c.n).where(has, SPOKEN)))
    return found
