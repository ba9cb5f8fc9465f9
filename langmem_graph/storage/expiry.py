"""Retention: deletes what is older than it is to be kept.

A message expires with everything that quotes it, as if it were forgotten; but what it
did to other records stays done, and a record that a younger message says, too, stays
with that message.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, delete, exists, select, update

from langmem_graph.errors import LangMemGraphError, for_log
from langmem_graph.reports import ExpiryReport
from langmem_graph.rooms import shared_name
from langmem_graph.settings import KeepDays
from langmem_graph.storage import call_log, record_queries, record_writes
from langmem_graph.storage.deletion import drop_files, drop_messages, drop_records
from langmem_graph.storage.forget_effects import Numbers, expire_effects
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.record_writes import FORM
from langmem_graph.storage.tables import (
    get_meta,
    messages,
    meta,
    record_sources,
    records,
    set_meta,
)
from langmem_graph.storage.user_room import Room, note_deletion

_log = logging.getLogger(__name__)
_KEEP_DAYS = "keep_days"
_LONGEST = 700_000  # days, before which no time can be computed
# messages, or records, of one transaction; others may work between two of them
_AT_ONCE = 500


def set_keep_days(services: Services, user_id: str, keep: KeepDays) -> None:
    """Store a user's own limits in the ledger; without any, the memory's hold again."""
    with (
        services.room(user_id, create=True) as room,
        room.database.write_transaction() as connection,
    ):
        if keep == KeepDays():
            connection.execute(delete(meta).where(meta.c.key == _KEEP_DAYS))
        else:
            set_meta(connection, _KEEP_DAYS, keep.model_dump_json())


def expire(
    services: Services, user_id: str, seconds: float | None = None
) -> ExpiryReport:
    """Delete what of a user is older than the user's limits, or else the memory's,
    allow.

    Whoever still reads it is waited for so long, by default for the busy timeout.
    """
    room_name = shared_name(user_id)
    report = ExpiryReport(user_id=room_name or user_id, is_shared=room_name is not None)
    kept = set[int]()
    with services.known_room(user_id) as room:
        if room is None:
            return report
        since = _limits(
            room.database.read(lambda c: get_meta(c, _KEEP_DAYS), EVERYTHING),
            services.keep_days,
        )
        while (done := _some(services, room, since, kept)) is not None:
            report = _sum(report, done)
        if report.messages or report.records:
            room.finish_deletion(seconds)
            services.drain(room, at_least=services.settings.storage.index_batch)
            left = room.traces_left is not None
            report = report.model_copy(update={"traces_left": left, "kept": len(kept)})
            text = "%s: %d messages and %d records expired"
            _log.info(text, room.name, report.messages, report.records)
    return report


def expire_all(services: Services) -> list[ExpiryReport]:
    """Do so for every user and shared room; the reports of those of whom something was
    deleted.

    Where it fails for one, it is done for the others, and the first error is raised
    then. A reader that outlasts the wait for one, as a backup of a whole database does,
    is not waited for again.
    """
    reports = list[ExpiryReport]()
    errors = list[LangMemGraphError]()
    for key in every_room(services):
        try:
            is_read = any(report.traces_left for report in reports)
            reports.append(expire(services, key, 0.0 if is_read else None))
        except LangMemGraphError as error:
            _log.warning("what is too old could not be deleted: %s", for_log(error))
            errors.append(error)
    if errors:
        raise errors[0]
    return [report for report in reports if report.messages or report.records]


def every_room(services: Services) -> list[str]:
    """The keys of all users' rooms and of all shared ones."""
    return [
        key for one in (False, True) for key in services.directory.users(shared=one)
    ]


def _limits(
    own: str | None, default: KeepDays
) -> tuple[datetime | None, datetime | None]:
    """Since when messages and records are kept, as the ledger stores times."""
    keep = KeepDays.model_validate_json(own) if own else KeepDays()
    now = datetime.now(UTC).replace(tzinfo=None)
    days = (keep.messages or default.messages, keep.records or default.records)
    first, second = (
        now - timedelta(min(one, _LONGEST)) if one else None for one in days
    )
    return first, second


def _sum(report: ExpiryReport, done: ExpiryReport) -> ExpiryReport:
    names = ("messages", "records", "files")
    return report.model_copy(
        update={n: getattr(report, n) + getattr(done, n) for n in names}
    )


def _some(
    services: Services,
    room: Room,
    since: tuple[datetime | None, datetime | None],
    kept: set[int],
) -> ExpiryReport | None:
    """Let some messages, or else some records, expire; None where nothing is too old.

    The records that stay without some of their messages are added to `kept`.
    """
    services.check_open()
    with room.working, room.database.write_transaction() as connection:
        gone = _too_old(connection, since[0]) if since[0] else []
        items = _unsaid(connection, since[0], gone) if since[0] and gone else []
        if not gone and since[1]:
            items = _unsaid(connection, since[1])
        if not gone and not items:
            return None
        note_deletion(connection)
        report, left = _expire(connection, items, gone, room.user_id)
        kept.update(left)
        return report


def _too_old(connection: Reading, since: datetime) -> list[int]:
    m = messages.c
    oldest = select(m.n).where(m.at < since).order_by(m.session, m.n).limit(_AT_ONCE)
    return list(connection.scalars(oldest))


def _unsaid(
    connection: Reading, since: datetime, gone: Sequence[int] | None = None
) -> list[int]:
    """Records that no message says since then: of those that `gone` say, all; else
    some.
    """
    s = record_sources.c
    m = messages.c
    said: ColumnElement[bool] = exists(
        select(s.message)
        .join(messages, m.n == s.message)
        .where(s.record == records.c.n)
        .where(m.at >= since)
    )  # fmt: skip
    query = select(records.c.n).where(~said).order_by(records.c.n)
    if gone is None:
        return list(connection.scalars(query.limit(_AT_ONCE)))
    return list(
        connection.scalars(
            query.where(records.c.n.in_(select(s.record).where(s.message.in_(gone))))
        )
    )


def _expire(
    connection: Reading, items: Numbers, gone: Numbers, user_id: str
) -> tuple[ExpiryReport, list[int]]:
    """The report, and the records that stay without some of their messages."""
    s = record_sources.c
    said = (
        select(s.record).where(s.message.in_(gone), s.record.not_in(items)).distinct()
    )
    kept = list(connection.scalars(said))
    files = drop_files(connection)
    expire_effects(connection, items, kept, gone)
    if items:
        drop_records(connection, items)
    call_log.forget_messages(connection, gone)
    drop_messages(connection, gone)
    _let_carry(connection, kept)
    counts = {"messages": len(gone), "records": len(items), "files": files}
    return ExpiryReport(user_id=user_id, **counts), kept


def _let_carry(connection: Reading, kept: Sequence[int]) -> None:
    """Let the messages that are left of records carry them, without words of the
    others.
    """
    s = record_sources.c
    r = records.c
    carried = select(s.record).where(s.record.in_(kept), s.supporting.is_(False))
    alone = s.record.in_(kept) & s.record.not_in(carried)
    connection.execute(update(record_sources).where(alone).values(supporting=False))
    cited = record_queries.citing(connection, kept)
    for n, own, values in connection.execute(
        select(r.n, r.text, r.verbatim).where(r.n.in_(kept))
    ).all():
        said = connection.scalars(
            select(messages.c.text).where(messages.c.n.in_(cited[n]))
        )
        texts = [own, *said]
        left = [
            one
            for one in values
            if all(any(w in text for text in texts) for w in _words(one))
        ]
        if left != values:
            record_writes.set_columns(connection, n, {"verbatim": left})


def _words(value: Any) -> list[str]:
    """The words of a message that a value repeats: what was read, and all texts of a
    form.
    """
    if isinstance(value, Mapping):
        parts = value["data"].values() if FORM in value else [value.get("raw", "")]
        return [word for part in parts for word in _texts(part)]
    return []


def _texts(value: Any) -> list[str]:
    several = value.values() if isinstance(value, Mapping) else value
    if isinstance(several, str):
        return [several]
    return (
        [text for one in several for text in _texts(one)]
        if isinstance(several, Iterable)
        else []
    )
