"""forget: one record, message or session goes, with everything that was made of it.

Then the words leave the disk too: the full-text indexes are merged, the write-ahead log is folded
into the file and cut, and the user's Chroma is made anew.
"""

from collections.abc import Callable

from sqlalchemy import Connection

from langmem_graph.errors import InvalidInputError
from langmem_graph.intake import session_key
from langmem_graph.models import ForgetReport
from langmem_graph.services import Services
from langmem_graph.store import forgetting, outbox, record_lookups, traces
from langmem_graph.store.forgetting import Forgotten


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
    numbers = record_lookups.numbers_of(connection, [record_id])
    return forgetting.forget_records(connection, list(numbers.values()))


def _message(connection: Connection, message_id: str) -> Forgotten:
    found = record_lookups.message_numbers(connection, [message_id])
    return forgetting.forget_messages(connection, [n for n, _, _ in found.values()])


def _session(connection: Connection, session_id: str) -> Forgotten:
    items = forgetting.messages_of_session(connection, session_id)
    return forgetting.forget_messages(connection, items)


def _forget(
    services: Services, user_id: str, work: Callable[[Connection], Forgotten]
) -> ForgetReport:
    with services.room(user_id) as room:
        with room.working:
            with room.database.writing() as connection:
                done = work(connection)
                if done.messages or done.records:
                    traces.note(connection)
            if traces.are_left(room):  # perhaps of an earlier call that failed
                traces.remove(room)
        outbox.drain_all(
            room, services.embedder, services.settings, at_least=services.settings.index_batch
        )
    return ForgetReport(
        messages=len(done.messages),
        records=len(done.records),
        restored=len(done.restored),
        files=done.files,
        read_again=done.read_again,
    )
