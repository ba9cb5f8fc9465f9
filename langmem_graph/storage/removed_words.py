"""Words that the user asked to forget, taken out of all that is stored.

In their place stands `[removed on request on DATE]`, so that every way of reading shows
the same. What was there before is kept in a table of its own, which nothing but `undo`
reads; with `keep=False` it is not kept.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Table, delete, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.ids_and_times import is_unique
from langmem_graph.schemas import Message
from langmem_graph.storage import call_log, deletion, record_effects, record_writes
from langmem_graph.storage.effects import CREATE, HIDDEN, NOTES
from langmem_graph.storage.full_text import RECORD_WORDS
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.tables import (
    EMBED,
    MESSAGES,
    RECORDS,
    SPOKEN,
    attributes,
    effects,
    messages,
    outbox,
    records,
    removed_words,
    sessions,
)

Numbers = set[int]
SHORTEST = 3
"""Characters of removed words that are looked for in names of projects."""
LEAST_LEFT = 40
"""Characters that are left of a text by which it is known again without its id."""
FIELD_LEVELS = 2
"""Levels of `extra` whose names are fields: its own, and those of a tool call; the
names in a call's arguments may be the user's words.
"""
_MARK = re.compile(r"\[removed on request on \d{4}-\d\d-\d\d\]")
_RUN = re.compile(b"\x01+")
_TABLES: dict[str, Table] = {
    table.name: table for table in (messages, records, effects)
}


class Words(NamedTuple):
    """Words to be removed, by the number of the text in which they stand."""

    messages: dict[int, list[str]]
    records: dict[int, list[str]]


class Removed(NamedTuple):
    """The texts that were changed."""

    messages: Numbers
    records: Numbers


def mark_of(day: date) -> str:
    """What stands in place of removed words."""
    return f"[removed on request on {day:%Y-%m-%d}]"


def remove(
    connection: Reading, request: int, words: Words, day: date, *, keep: bool
) -> Removed:
    """Take words out of messages and records, and out of what quotes them.

    Args:
        connection: of a write transaction.
        request: the number of the message that asked for it.
        words: what is removed; words that do not stand in their text are passed over.
        day: when it was asked for.
        keep: keep what was there before, for `undo`.
    """
    remover = _Remover(connection, request, mark_of(day), keep)
    for n, spans in words.messages.items():
        remover.change_message(n, spans)
    for n, spans in words.records.items():
        remover.change_record(n, spans)
    remover.change_projects()
    remover.change_quotes()
    done = Removed(remover.messages, remover.records)
    record_effects.refold(connection, done.records)
    if done.messages or done.records:
        deletion.drop_files(connection)
        call_log.forget_words(connection, [*done.messages, request])
    if done.records and not keep:
        deletion.drop_unused_attributes(connection)
    return done


class _Remover:
    def __init__(
        self, connection: Reading, request: int, mark: str, keep: bool
    ) -> None:
        self._connection = connection
        self._request = request
        self._mark = mark
        self._keep = keep
        self._gone = list[str]()
        self.messages = Numbers()
        self.records = Numbers()

    def change_message(self, n: int, spans: Sequence[str]) -> None:
        row = self._row(messages, n)
        if row is None:
            return
        text = _without(row["text"], spans, self._mark)
        if text == row["text"]:
            return
        self._gone += spans
        extra = _without_within(row["extra"], spans, self._mark, FIELD_LEVELS)
        changed = {"text": text, "chars": len(text), "extra": extra}
        self._change(messages, n, changed)
        reindex_messages(self._connection, [n])
        self.messages.add(n)

    def change_record(self, n: int, spans: Sequence[str]) -> None:
        row = self._row(records, n)
        if row is None:
            return
        text = _without(row["text"], spans, self._mark)
        if text == row["text"]:
            return
        self._gone += spans
        changed: dict[str, Any] = {
            "text": text,
            "entities": [one for one in row["entities"] if not _tells(one, spans)],
            "verbatim": [one for one in row["verbatim"] if not _tells(one, spans)],
            # what is told again later is another record
            "content_hash": f"removed-{n}",
        }
        if self._names(row["attribute"], spans):
            changed["attribute"] = None
        is_empty = not re.search(r"\w", _MARK.sub("", text))
        if is_empty:
            changed["attribute"] = None
        self._change(records, n, changed)
        self._change_effects(n, is_empty=is_empty)
        reindex_records(self._connection, [n])
        self.records.add(n)

    def _names(self, attribute: int | None, spans: Sequence[str]) -> bool:
        """Whether the subject or the name of an attribute tells what is removed."""
        named = select(attributes.c.subject, attributes.c.name)
        found = self._connection.execute(named.where(attributes.c.n == attribute))
        return any(_tells(word, spans) for row in found for word in row)

    def _change_effects(self, n: int, *, is_empty: bool) -> None:
        """What effects set, and why; a record of which nothing is left is hidden."""
        e = effects.c
        rows = self._connection.execute(select(effects).where(e.record == n)).all()
        for row in rows:
            values = _without_within(row.new_values, self._gone, self._mark)
            if row.op == CREATE and is_empty:
                values |= {"status": HIDDEN, "event": None}
            reason = row.reason if row.op in NOTES else None
            if (values, reason) != (row.new_values, row.reason):
                changed = {"new_values": values, "reason": reason}
                self._change(effects, row.n, changed)

    def change_projects(self) -> None:
        """Names of projects that hold what is gone, of whatever records."""
        spans = [span.strip().casefold() for span in self._gone]
        spans = [span for span in spans if len(span) >= SHORTEST]
        r = records.c
        named = select(r.n, r.project, r.scene).where(
            r.project.is_not(None) | r.scene.is_not(None)
        )
        for row in self._connection.execute(named).all():
            parts = {"project": row.project, "scene": row.scene}
            told = [
                name
                for name, text in parts.items()
                if text and any(span in text.casefold() for span in spans)
            ]
            if told:
                self._change(records, row.n, dict.fromkeys(told))
                self.records.add(row.n)

    def change_quotes(self) -> None:
        """Quotes of these messages that told what is gone, and reasons with them."""
        e = effects.c
        told = e.message.in_(self.messages) | e.agreed_message.in_(self.messages)
        for row in self._connection.execute(select(effects).where(told)).all():
            parts = {"quote": row.quote, "agreed_quote": row.agreed_quote}
            changed = {
                name: "" if _tells(text, self._gone) else text
                for name, text in parts.items()
            }
            if changed != parts:
                self._change(effects, row.n, {**changed, "reason": None})

    def _row(self, table: Table, n: int) -> Mapping[str, Any] | None:
        row = self._connection.execute(select(table).where(table.c.n == n)).first()
        return None if row is None else dict(row._mapping)

    def _change(self, table: Table, n: int, values: Mapping[str, Any]) -> None:
        row = self._row(table, n)
        if row is None:
            return
        former = {name: row[name] for name in values} if self._keep else None
        kept = {"request": self._request, "layer": table.name, "item": n}
        made = insert(removed_words).values(**kept, former=former)
        self._connection.execute(made)
        changed = update(table).where(table.c.n == n).values(**values)
        self._connection.execute(changed)


def restore(connection: Reading, request: int) -> Removed:
    """Put back what was removed because this message asked for it."""
    kept = select(removed_words).where(removed_words.c.request == request)
    kept = kept.where(removed_words.c.former.is_not(sa.null()))
    rows = connection.execute(kept.order_by(removed_words.c.n.desc())).all()
    for row in rows:
        table = _TABLES[row.layer]
        former = update(table).where(table.c.n == row.item).values(**row.former)
        connection.execute(former)
    numbers = [row.n for row in rows]
    connection.execute(delete(removed_words).where(removed_words.c.n.in_(numbers)))
    done = Removed(
        {row.item for row in rows if row.layer == messages.name},
        {row.item for row in rows if row.layer == records.name},
    )
    if done.messages or done.records:
        deletion.drop_files(connection)
    reindex_messages(connection, done.messages)
    reindex_records(connection, done.records)
    record_effects.refold(connection, done.records)
    return done


def reindex_messages(connection: Reading, items: Iterable[int]) -> None:
    """Index the words of changed messages anew, and let them be embedded again."""
    numbers = sorted(items)
    m = messages.c
    sessions = select(m.session).where(m.n.in_(numbers)).distinct()
    deletion.drop_layer(connection, MESSAGES, numbers)
    for session in connection.scalars(sessions).all():
        deletion.update_session(connection, session)
    spoken = select(m.n).where(m.n.in_(numbers), SPOKEN)
    _embed_again(connection, MESSAGES, connection.scalars(spoken).all())


def reindex_records(connection: Reading, items: Iterable[int]) -> None:
    """The same for records."""
    numbers = sorted(items)
    deletion.drop_layer(connection, RECORDS, numbers)
    RECORD_WORDS.drop(connection, numbers)
    texts = select(records.c.n, records.c.text).where(records.c.n.in_(numbers))
    rows = {row.n: [row.text] for row in connection.execute(texts)}
    RECORD_WORDS.add(connection, rows)
    _embed_again(connection, RECORDS, numbers)
    record_writes.note_changed_records(connection)


def _embed_again(connection: Reading, layer: str, items: Iterable[int]) -> None:
    rows = [{"layer": layer, "item": n, "task": EMBED} for n in items]
    if rows:
        connection.execute(upsert(outbox).on_conflict_do_nothing(), rows)


def as_stored(connection: Reading, given: Sequence[Message]) -> list[Message]:
    """Given messages, with the stored text of those whose words were removed.

    A thread sends its messages again with every turn, as they were said.
    """
    changed = select(removed_words.c.item).where(removed_words.c.layer == messages.name)
    if connection.scalar(changed.limit(1)) is None:
        return list(given)
    m = messages.c
    of_message = select(m.message_id, sessions.c.session_id, m.role, m.text).join_from(
        messages, sessions
    )
    rows = connection.execute(of_message.where(m.n.in_(changed))).all()
    stored = [_Stored(*row) for row in rows if _MARK.search(row.text)]
    return [_as_stored(one, stored) for one in given]


class _Stored(NamedTuple):
    id: str
    session_id: str
    role: str
    text: str


def _as_stored(given: Message, stored: Sequence[_Stored]) -> Message:
    fitting = [one for one in stored if _fits(given, one)]
    by_id = [one for one in fitting if _is_of_its_id(given, one)]
    # what is left of a text says nothing about another one where little is left
    by_text = [one for one in fitting if len(_MARK.sub("", one.text)) >= LEAST_LEFT]
    same = by_id or by_text
    text = same[0].text if same else given.text
    return given.model_copy(update={"text": text})


def _is_of_its_id(given: Message, stored: _Stored) -> bool:
    in_session = given.session_id == stored.session_id
    return given.id == stored.id and (is_unique(given.id) or in_session)


def as_shown(text: str, removed: Mapping[int, Sequence[str]], day: date) -> str:
    """A text without the words that were removed elsewhere."""
    spans = [span for spans in removed.values() for span in spans]
    return _without(text, spans, mark_of(day))


def _fits(given: Message, stored: _Stored) -> bool:
    """Whether a given message may be what a stored one was before words went."""
    if given.role != stored.role:
        return False
    text = given.text
    first, *rest = _MARK.split(stored.text)
    if not text.startswith(first) or not text.endswith(rest[-1]):
        return False
    place = len(first)
    for part in rest:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def _without(text: str, spans: Iterable[str], mark: str) -> str:
    """The text with the mark in place of these words; one for all that have no gap
    between them.
    """
    pieces = []
    start = 0
    for run in _RUN.finditer(_gone(text, spans)):
        pieces += [text[start : run.start()], mark]
        start = run.end()
    return "".join([*pieces, text[start:]])


def _gone(text: str, spans: Iterable[str]) -> bytearray:
    """For each character 1 where it is of these words; marks hold none of them."""
    marked = bytearray(len(text))
    for found in _MARK.finditer(text):
        _cover(marked, *found.span())
    gone = bytearray(len(text))
    for span in {one for one in spans if one.strip()}:
        for found in re.finditer(re.escape(span), text):
            is_in_mark = marked.find(0, *found.span()) < 0
            if not is_in_mark:
                _cover(gone, *found.span())
    return gone


def _cover(signs: bytearray, start: int, end: int) -> None:
    signs[start:end] = b"\x01" * (end - start)


def _without_within(
    value: Any, spans: Iterable[str], mark: str, field_levels: float = math.inf
) -> Any:
    """The same for every text in a JSON value, names included below these levels of
    objects.
    """
    if isinstance(value, str):
        return _without(value, spans, mark)
    if isinstance(value, list):
        return [_without_within(one, spans, mark, field_levels) for one in value]
    if not isinstance(value, dict):
        return value
    names = list(value)
    if field_levels < 1:
        names = [_without(name, spans, mark) for name in names]
    parts = [
        _without_within(part, spans, mark, field_levels - 1) for part in value.values()
    ]
    return dict(zip(names, parts, strict=True))


def _tells(value: Any, spans: Iterable[str]) -> bool:
    """Whether a value holds removed words, or is a part of them."""
    if value is None:
        return False
    texts = [value] if isinstance(value, str) else [json.dumps(value)]
    if isinstance(value, dict):
        texts = [one for one in value.values() if isinstance(one, str)]
    whole = [span.casefold() for span in spans]
    told = [text.casefold() for text in texts if text.strip()]
    return any(text in span or span in text for text in told for span in whole)
