"""What somebody who looks into a memory asks of a ledger.

Messages and records as the public API returns them, a record's history, pages, what
came of what, and how much there is.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Table, func, select

from langmem_graph.ids_and_times import session_key
from langmem_graph.reports import (
    Comparison,
    Edge,
    HistoryEntry,
    MessageUse,
    Neighbourhood,
    UserSummary,
)
from langmem_graph.rooms import shared_name
from langmem_graph.schemas import ORIGIN_OF_ROLE, Message, Record, RecordChange
from langmem_graph.storage import (
    message_queries,
    pending_messages,
    record_changes,
    record_effects,
    record_queries,
)
from langmem_graph.storage.effects import REFINE, Effect, before
from langmem_graph.storage.graph_neighbours import CAUSAL, SEMANTIC
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_queries import aware
from langmem_graph.storage.record_writes import naive
from langmem_graph.storage.superseded_labels import labelled_messages, labelled_records
from langmem_graph.storage.tables import (
    MESSAGES,
    RECORDS,
    links,
    messages,
    outbox,
    record_sources,
    records,
    sessions,
    unread,
)


def get_conversation(connection: Reading, ids: Sequence[str]) -> list[Message]:
    """The messages with these ids and their labels, in the order asked.

    Ids may also be as models were shown them.
    """
    ids = message_queries.whole_ids(connection, ids)
    rows = record_queries.message_numbers(connection, ids)
    found = labelled_messages(connection, [n for n, _, _ in rows.values()])
    by_id = {message.id: message for message in found.values()}
    return [
        by_id[message_id] for message_id in dict.fromkeys(ids) if message_id in by_id
    ]


def export_messages(connection: Reading) -> list[dict[str, Any]]:
    """All messages as JSON rows, in the form that an import reads."""
    return list(map(message_row, message_queries.all_messages(connection)))


def get_records(connection: Reading, ids: Sequence[str]) -> list[Record]:
    """Whole records with their labels in the order asked; unknown ids are left out."""
    numbers = record_queries.numbers_of(connection, ids)
    stored = labelled_records(connection, numbers.values())
    return [stored[numbers[name]] for name in dict.fromkeys(ids) if name in numbers]


def export_records(
    connection: Reading, as_of: datetime | None, *, history: bool = False
) -> list[dict[str, Any]]:
    """Rows of the records that hold now, or at a time, or (with `history`) ever; oldest
    first.

    What does not hold has a row's `labels`; what held at a time is shown as it was
    then.
    """
    if as_of is not None:
        numbers = record_queries.numbers_true_at(connection, naive(as_of) or as_of)
    else:
        numbers = record_queries.all_numbers(connection, None)
    if as_of is None and not history:
        numbers = list(record_queries.current(connection, numbers))
    read = record_queries.records_by_number if as_of else labelled_records
    stored = read(connection, numbers)
    told = record_changes.changes_of(connection, numbers) if history else {}
    return [
        record_row(stored[number], told.get(number, [])) for number in sorted(stored)
    ]


def changes(connection: Reading, record_id: str) -> list[RecordChange]:
    """What messages did to a record and what still counts, oldest first."""
    numbers = record_queries.numbers_of(connection, [record_id]).values()
    made = record_changes.changes_of(connection, numbers).values()
    return [change for of_record in made for change in of_record]


def history(connection: Reading, record_id: str) -> list[HistoryEntry]:
    """Every change of a record, and of those that it superseded or refined, oldest
    first.
    """
    named = record_queries.numbers_of(connection, [record_id]).values()
    items = connection.seen(RECORDS, _in_one_line(connection, named))
    made = record_effects.effects_of(connection, items)
    r = records.c
    columns = rows_where_in(connection, select(r.n, r.record_id), r.n, items)
    ids = {row.n: row.record_id for row in columns}
    every = [one for several in made.values() for one in several if one.op != REFINE]
    said = {one.message for one in every if one.message is not None}
    messages_said = _ids_passing(connection, said)
    filtered = connection.where is not None
    entries = []
    for effect in sorted(every, key=lambda one: one.n):
        entry = HistoryEntry(
            change=effect.change,
            record_id=ids[effect.record],
            op=effect.op,
            at=aware(effect.at),
            by=effect.by,
            # a reason may repeat words that do not pass
            reason=None if filtered else effect.reason,
            before=before(effect, made[effect.record]),
        )
        entries.append(entry.model_copy(update=_words(effect, messages_said)))
    return entries


def _words(effect: Effect, said: Mapping[int, str]) -> dict[str, Any]:
    """The words that made a change, where their message passes."""
    if effect.message is None or effect.message not in said:
        return {}
    words = {"relation": effect.relation, "quote": effect.quote or ""}
    told = f"{effect.relation}: “{effect.quote}”" if effect.quote else None
    return {**words, "message_id": said[effect.message], "reason": told}


def _ids_passing(connection: Reading, items: Iterable[int]) -> dict[int, str]:
    """The ids of those of these messages that may be seen."""
    m = connection.messages.c
    rows = rows_where_in(connection, select(m.n, m.message_id), m.n, items)
    return {row.n: row.message_id for row in rows}


def _in_one_line(connection: Reading, items: Iterable[int]) -> set[int]:
    """These records and all that `supersedes` or `refines` links connect with them."""
    line = fresh = set(items)
    kinds = links.c.kind.in_(record_effects.LINKS)
    while fresh:
        near = (links.c.source.in_(fresh) | links.c.target.in_(fresh)) & kinds
        rows = connection.execute(select(links.c.source, links.c.target).where(near))
        fresh = {end for row in rows for end in row} - line
        line = line | fresh
    return line


def message_row(message: Message) -> dict[str, Any]:
    """A message as the row that `add` and `langmem-graph import` take."""
    fields = message.model_dump(mode="json", exclude={"labels"}, exclude_defaults=True)
    if message.origin == ORIGIN_OF_ROLE[message.role]:
        fields.pop("origin", None)
    else:
        fields["origin"] = message.origin
    return {"id": fields.pop("id"), "content": fields.pop("text"), **fields}


def record_row(record: Record, changes: Sequence[RecordChange] = ()) -> dict[str, Any]:
    """A record, and what messages did to it, as the row that `add_records` takes."""
    derived = {
        "superseded_by",
        "created_at",
        "updated_at",
        "metadata",
        "origin",
        "room",
        "author",
    }
    fields = record.model_dump(mode="json", exclude=derived, exclude_defaults=True)
    row = {
        "text": fields.pop("text"),
        "source_message_ids": fields.pop("message_ids"),
        **fields,
    }
    if changes:
        hidden = {"record_id", "by_text", "change"}
        dumped = [
            one.model_dump(mode="json", exclude=hidden, exclude_none=True)
            for one in changes
        ]
        row["changes"] = dumped
    return row


MOST_COMPARED = 500  # records of each kind that a comparison lists
_DUE = select(unread.c.message).union(
    select(outbox.c.item).where(outbox.c.layer == MESSAGES)
)
_OLDEST_DUE = select(func.min(messages.c.added_at)).where(messages.c.n.in_(_DUE))


def session_page(
    connection: Reading, session: str, start: int, limit: int
) -> list[Message]:
    """Messages of a session with their labels, in the order they arrived."""
    m = connection.messages.c
    own = select(m.n).join(sessions, sessions.c.n == m.session)
    own = own.where(sessions.c.session_id == session_key(session)).order_by(m.n)
    numbers = list(connection.scalars(own.offset(start).limit(limit)))
    found = labelled_messages(connection, numbers)
    return [found[n] for n in numbers]


def record_page(connection: Reading, start: int, limit: int) -> list[Record]:
    """Records of any status with their labels, the newest first."""
    r = connection.records.c
    page = select(r.n).order_by(r.n.desc()).offset(start).limit(limit)
    numbers = list(connection.scalars(page))
    found = labelled_records(connection, numbers)
    return [found[n] for n in numbers]


def uses_of(connection: Reading, ids: Sequence[str]) -> list[MessageUse]:
    """What was made of each of these messages, in the order asked; unknown ids are left
    out.
    """
    numbers = {
        i: row[0] for i, row in record_queries.message_numbers(connection, ids).items()
    }
    s = record_sources.c
    cited: dict[int, list[int]] = defaultdict(list)
    for row in rows_where_in(
        connection, select(s.message, s.record), s.message, numbers.values()
    ):
        cited[row.message].append(row.record)
    whole = labelled_records(connection, {n for made in cited.values() for n in made})
    changes = record_changes.changes_by(connection, numbers.values())
    pending = select(unread.c.message)
    waiting = {
        row.message
        for row in rows_where_in(
            connection, pending, unread.c.message, numbers.values()
        )
    }
    return [
        MessageUse(
            message_id=name,
            records=[whole[n] for n in sorted(cited[numbers[name]]) if n in whole],
            changes=changes.get(numbers[name], []),
            pending=numbers[name] in waiting,
        )
        for name in dict.fromkeys(ids)
        if name in numbers
    ]


def neighbourhood(connection: Reading, record_id: str, most: int) -> Neighbourhood:
    """Up to `most` records around one, over the strongest semantic and causal edges."""
    inside = list(record_queries.numbers_of(connection, [record_id]).values())
    fresh = inside
    while fresh and len(inside) < most:
        rows = _edges(connection, fresh)
        ends = [end for row in rows for end in (row.source, row.target)]
        shown = connection.seen(RECORDS, ends)
        fresh = [n for n in dict.fromkeys(ends) if n in shown and n not in inside]
        fresh = fresh[: most - len(inside)]
        inside = inside + fresh
    found = labelled_records(connection, inside)
    names = {n: found[n].record_id for n in inside}
    between = [row for row in _edges(connection, inside) if row.source in names]
    edges = [
        Edge(
            source=names[r.source], target=names[r.target], kind=r.kind, weight=r.weight
        )
        for r in between
        if r.target in names
    ]
    return Neighbourhood(records=[found[n] for n in inside], edges=edges)


def _edges(connection: Reading, items: Sequence[int]) -> Sequence[Any]:
    """The rows of the edges that touch these records, the strongest first."""
    e = links.c
    touching = e.source.in_(items) | e.target.in_(items)
    query = select(e.source, e.target, e.kind, e.weight).where(touching)
    query = query.where(e.kind.in_((SEMANTIC, CAUSAL)))
    return connection.execute(query.order_by(e.weight.desc(), e.source, e.target)).all()


def compare(connection: Reading, first: datetime, second: datetime) -> Comparison:
    """What held at one of two times only, and how much of what came between was
    forgotten.
    """
    early, late = (naive(at) or at for at in (first, second))
    before = set(record_queries.numbers_true_at(connection, early))
    after = set(record_queries.numbers_true_at(connection, late))
    added = sorted(after - before)
    ended = sorted(before - after)
    whole = labelled_records(
        connection, [*added[:MOST_COMPARED], *ended[:MOST_COMPARED]]
    )
    return Comparison(
        added=[whole[n] for n in added[:MOST_COMPARED]],
        ended=[whole[n] for n in ended[:MOST_COMPARED]],
        added_count=len(added),
        ended_count=len(ended),
        kept_count=len(before & after),
        forgotten_messages=_missing(
            connection, messages, messages.c.added_at, early, late
        ),
        forgotten_records=_missing(
            connection, records, records.c.created_at, early, late
        ),
    )


def _missing(
    connection: Reading,
    table: Table,
    stored: Column[datetime],
    early: datetime,
    late: datetime,
) -> int:
    """How many rows that were stored between two times are gone: no number is given
    twice.
    """
    n = table.c.n
    before = connection.scalar(select(func.max(n)).where(stored <= early)) or 0
    until = connection.scalar(select(func.max(n)).where(stored <= late)) or 0
    left = connection.scalar(select(func.count()).where(n > before, n <= until)) or 0
    return max(0, until - before - left)


def summary(connection: Reading, key: str) -> UserSummary:
    """How much the room with this key holds, a user's or a shared one, and what of it
    is due.
    """
    held = message_queries.counts(connection)
    oldest = connection.scalar(_OLDEST_DUE)
    return UserSummary(
        user_id=shared_name(key) or key,
        is_shared=shared_name(key) is not None,
        messages=held.messages,
        sessions=held.sessions,
        records=held.records,
        vectors=held.vectors,
        to_embed=held.waiting.get("embed", 0),
        to_read=pending_messages.count_unread(connection),
        oldest_due=None if oldest is None else oldest.replace(tzinfo=UTC),
    )
