"""What earlier versions kept of a record's history, and how it becomes effects.

`history` had each change with the values of before, `record_changes` the words that
made it, and `links` what took whose place. The effects are written beside them, and the
state that they make of each record is compared with the one that is stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from langmem_graph.errors import StorageError
from langmem_graph.schemas import NO_LONGER
from langmem_graph.storage.effects import (
    ACTIVE,
    CREATE,
    DISCARDED,
    END,
    ENDING,
    EXPIRE,
    HIDDEN,
    HIDE,
    NOTES,
    OPS,
    REFINE,
    SKIP,
    STATE,
    SUPERSEDE,
    SUPERSEDED,
    UNDO,
    UNHIDE,
    Effect,
    State,
    fold,
    text_of,
)
from langmem_graph.storage.tables import (
    effects,
    links,
    messages,
    records,
    removed_words,
)

FORMER = sa.MetaData()
history = sa.Table(
    "history",
    FORMER,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("change", sa.String, nullable=False),
    sa.Column("record", sa.ForeignKey(records.c.n), nullable=False),
    sa.Column("op", sa.String, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("reason", sa.Text),
    sa.Column("before", sa.JSON),
    sa.Index("history_by_record", "record", "n"),
    sa.Index("history_by_change", "change"),
    sqlite_autoincrement=True,
)
"""Every change of a record with its former values."""
record_changes = sa.Table(
    "record_changes",
    FORMER,
    sa.Column("n", sa.Integer, primary_key=True),
    sa.Column("change", sa.String, nullable=False),
    sa.Column("record", sa.ForeignKey(records.c.n), nullable=False),
    sa.Column("relation", sa.String, nullable=False),
    sa.Column("by_record", sa.ForeignKey(records.c.n)),
    sa.Column("since", sa.DateTime),
    sa.Column("message", sa.ForeignKey(messages.c.n), nullable=False),
    sa.Column("quote", sa.Text, nullable=False),
    sa.Column("agreed_message", sa.ForeignKey(messages.c.n)),
    sa.Column("agreed_quote", sa.Text),
    sa.Column("made_by", sa.String, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
    sa.Column("undone", sa.Boolean, nullable=False, default=False),
    sa.Index("record_changes_by_record", "record"),
    sa.Index("record_changes_by_by_record", "by_record"),
    sa.Index("record_changes_by_message", "message"),
    sa.Index("record_changes_by_change", "change"),
    sqlite_autoincrement=True,
)
"""What a message did to a record, with its words."""

_AT_ONCE = 1_000  # records
_WORDS = (
    "relation",
    "by_record",
    "message",
    "quote",
    "agreed_message",
    "agreed_quote",
    "since",
)
_NO_WORDS = dict.fromkeys(_WORDS)


def create(connection: Connection) -> None:
    """Make the table `history`, as the second version did."""
    FORMER.create_all(connection, tables=[history])


def create_changes(connection: Connection) -> None:
    """Make the table `record_changes`, as the third version did."""
    FORMER.create_all(connection, tables=[record_changes])


@dataclass
class _Former:
    """What is stored of one record."""

    row: Row[Any]
    entries: list[Row[Any]] = field(default_factory=list)
    changes: list[Row[Any]] = field(default_factory=list)
    links: list[tuple[int, str]] = field(default_factory=list)
    """The newer record, and the kind of the link."""


@dataclass(frozen=True)
class _Made:
    """How a record was made."""

    change: str
    by: str
    at: datetime
    valid_from: datetime
    status: str


def convert(connection: Connection, last: int) -> int:
    """Write the effects of all records, and return the greatest number of an effect.

    Args:
        connection: of a write transaction.
        last: the greatest number that `history` gave.

    Raises:
        StorageError: the effects of a record do not make the state that is stored.
    """
    made = _makings(connection)
    said = {
        row.n: row.at
        for row in connection.execute(sa.select(messages.c.n, messages.c.at))
    }
    numbers = list(connection.scalars(sa.select(records.c.n).order_by(records.c.n)))
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        rows = list[dict[str, Any]]()
        for former in _former(connection, some[0], some[-1]):
            of_record, last = _numbered(_Conversion(former, made, said).run(), last)
            _check(connection, former.row, of_record)
            rows += [dict(vars(effect)) for effect in of_record]
        if rows:
            connection.execute(sa.insert(effects), rows)
    _convert_removed(connection)
    return last


def _convert_removed(connection: Connection) -> None:
    """Let what words were removed from on request be put back into the effects."""
    w = removed_words.c
    query = sa.select(removed_words).order_by(w.n)
    for row in connection.execute(query).all():
        of_row = sa.update(removed_words).where(w.n == row.n)
        if row.layer == record_changes.name:
            n = connection.scalar(_effect_of_words(row.item))
            connection.execute(of_row.values(layer=effects.name, item=n))
        elif row.layer == history.name:
            connection.execute(sa.delete(removed_words).where(w.n == row.n))
        elif row.layer == records.name and "status" in (row.former or {}):
            _convert_hidden(connection, row)


def _effect_of_words(change: int) -> sa.Select[Any]:
    """Selects the effect that was made of a row of words."""
    c = record_changes.c
    e = effects.c
    same = (e.change == c.change) & (e.record == c.record) & (e.message == c.message)
    made = sa.select(e.n).join(record_changes, same & (e.relation == c.relation))
    return made.where(c.n == change).limit(1)


def _convert_hidden(connection: Connection, row: Row[Any]) -> None:
    """Let a record of which nothing was left be shown again by its creation."""
    e = effects.c
    created = sa.select(e.n, e.new_values).where(e.record == row.item, e.op == CREATE)
    effect = connection.execute(created).one()
    parts = {name: row.former[name] for name in ("status", "event")}
    former = {"new_values": {**effect.new_values, **parts}}
    kept = {"request": row.request, "layer": effects.name, "item": effect.n}
    connection.execute(sa.insert(removed_words).values(**kept, former=former))
    left = {name: value for name, value in row.former.items() if name not in parts}
    own = sa.update(removed_words).where(removed_words.c.n == row.n)
    connection.execute(own.values(former=left))


def _makings(connection: Connection) -> dict[int, _Made]:
    h = history.c
    r = records.c
    query = sa.select(h.record, h.change, h.by, h.at, r.valid_from, r.status)
    created = query.join(records, r.n == h.record).where(h.op == CREATE)
    made = {
        row.record: _Made(*list(row)[1:]) for row in connection.execute(created).all()
    }
    query = sa.select(r.n, r.record_id, r.made_by, r.created_at, r.valid_from, r.status)
    for row in connection.execute(query).all():
        made.setdefault(row.n, _Made(*list(row)[1:]))
    return made


def _former(connection: Connection, first: int, last: int) -> Iterator[_Former]:
    """What is stored of the records of these numbers."""
    r = records.c
    rows = connection.execute(sa.select(records).where(r.n.between(first, last)))
    found = {row.n: _Former(row) for row in rows}
    for table, name in ((history, "entries"), (record_changes, "changes")):
        meant = table.c.record.between(first, last)
        query = sa.select(table).where(meant).order_by(table.c.n)
        for row in connection.execute(query):
            getattr(found[row.record], name).append(row)
    k = links.c
    kinds = k.kind.in_(("supersedes", "refines")) & k.target.between(first, last)
    query = sa.select(k.source, k.target, k.kind).where(kinds).order_by(k.source)
    for row in connection.execute(query):
        found[row.target].links.append((row.source, row.kind))
    for n in sorted(found):
        yield found[n]


class _Conversion:
    """Turns what is stored of one record into its effects."""

    def __init__(
        self, former: _Former, made: Mapping[int, _Made], said: Mapping[int, datetime]
    ) -> None:
        self.former = former
        self.made = made
        self.said = said
        self.words = list(former.changes)
        self.undone = {one.reason for one in former.entries if one.op == UNDO}
        self.effects = list[Effect]()

    def run(self) -> list[Effect]:
        """The effects; those without an entry in the history have the number 0."""
        for place, entry in enumerate(self.former.entries):
            self.effects.append(self._of_entry(place, entry))
        if not any(effect.op == CREATE for effect in self.effects):
            self.effects.append(self._unknown_creation())
        for change in self.words:
            self.effects.append(self._of_words(change))
        self._link()
        self._settle_imported_end()
        self._agree()
        return self.effects

    def _of_entry(self, place: int, entry: Row[Any]) -> Effect:
        op, values = entry.op, self._values(place, entry)
        if "valid_to" in values and op != CREATE:
            op = op if op in ENDING else END
        # a reason that repeats the words is not needed beside them
        words = self._words_of(entry, op)
        if words["message"] is not None:
            op = OPS.get(words["relation"], op)
        return Effect(
            n=entry.n,
            change=entry.change,
            record=entry.record,
            op=op,
            **words,
            new_values=values,
            by=entry.by,
            reason=None if words["message"] or op == EXPIRE else entry.reason,
            undone=op not in NOTES and entry.change in self.undone,
        )

    def _unknown_creation(self) -> Effect:
        """The creation of a record of which the history tells nothing."""
        making = self.made[self.former.row.n]
        values = {name: self._value(-1, name) for name in STATE}
        return self._new(
            CREATE,
            making.change,
            making.by,
            making.at,
            words=_NO_WORDS,
            new_values=values,
        )

    def _values(self, place: int, entry: Row[Any]) -> dict[str, Any]:
        """What an entry set: what the next that set the same has as of before."""
        if entry.op == CREATE:
            return {name: self._value(-1, name) for name in STATE}
        if entry.op in NOTES:
            return {}
        if entry.op == EXPIRE:
            return {"status": SUPERSEDED, "valid_to": entry.reason}
        after = {name: self._value(place, name) for name in entry.before or {}}
        if entry.op == SKIP and "event" in after:
            before = set((entry.before["event"] or {}).get("skipped") or ())
            left_out = (after["event"] or {}).get("skipped") or ()
            return {"skipped": [day for day in left_out if day not in before]}
        return after

    def _value(self, place: int, name: str) -> Any:
        """What a column was after an entry; after none (-1), at first."""
        for later in self.former.entries[place + 1 :]:
            if name in (later.before or {}):
                return later.before[name]
        value = self.former.row._mapping[name]
        return text_of(value) if name == "valid_to" else value

    def _words_of(self, entry: Row[Any], op: str) -> dict[str, Any]:
        """The words of the same change that did the same; they are used once."""
        for change in self.words:
            does = END if change.relation in NO_LONGER else OPS[change.relation]
            same = op in ENDING if does == END else op in (does, change.relation)
            if change.change == entry.change and same:
                self.words.remove(change)
                return {name: change._mapping[name] for name in (*_WORDS, "at")}
        return {**_NO_WORDS, "at": entry.at}

    def _of_words(self, change: Row[Any]) -> Effect:
        """Words without an entry: of an import, or of what had ended already."""
        values = dict[str, Any]()
        op = OPS.get(change.relation, SUPERSEDE if change.by_record else END)
        if op in ENDING:
            begun = self.former.row.valid_from
            end = change.since or self.said[change.message]
            end = begun if change.relation == "corrects" else max(begun, end)
            values = {"status": SUPERSEDED, "valid_to": text_of(end)}
        elif op == SKIP:
            values = {"skipped": []}
        words = {name: change._mapping[name] for name in _WORDS}
        return self._new(
            op,
            change.change,
            change.made_by,
            change.at,
            words=words,
            new_values=values,
            undone=change.undone,
        )

    def _new(
        self,
        op: str,
        change: str,
        by: str,
        at: datetime,
        *,
        words: Mapping[str, Any],
        new_values: dict[str, Any],
        undone: bool = False,
    ) -> Effect:
        return Effect(
            n=0,
            change=change,
            record=self.former.row.n,
            op=op,
            **words,
            new_values=new_values,
            at=at,
            by=by,
            reason=None,
            undone=undone,
        )

    def _link(self) -> None:
        """Name the records that took this one's place without words."""
        for newer, kind in self.former.links:
            does = ENDING if kind == "supersedes" else {REFINE}
            same = [e for e in self.effects if e.op in does]
            if any(effect.by_record == newer for effect in same):
                continue
            making = self.made[newer]
            bare = [e for e in same if e.by_record is None and e.message is None]
            for effect in bare:
                if effect.change == making.change:
                    place = self.effects.index(effect)
                    self.effects[place] = replace(effect, by_record=newer)
                    break
            else:
                self.effects.append(self._by_link(newer, making, kind))

    def _by_link(self, newer: int, making: _Made, kind: str) -> Effect:
        values = dict[str, Any]()
        if kind == "supersedes":
            end = max(self.former.row.valid_from, making.valid_from)
            values = {"status": SUPERSEDED, "valid_to": text_of(end)}
        op = SUPERSEDE if values else REFINE
        words = {**_NO_WORDS, "by_record": newer}
        return self._new(
            op,
            making.change,
            making.by,
            making.at,
            words=words,
            new_values=values,
            undone=making.status == DISCARDED,
        )

    def _settle_imported_end(self) -> None:
        """Let a record that was stored as ended be so by an effect."""
        place, created = self._created()
        if created.new_values["status"] != SUPERSEDED:
            return
        end = created.new_values["valid_to"]
        values = {"status": SUPERSEDED, "valid_to": end}
        begun = {**created.new_values, "status": ACTIVE, "valid_to": None}
        self.effects[place] = replace(created, new_values=begun)
        ends = [n for n, effect in enumerate(self.effects) if effect.op in ENDING]
        for n in ends:
            self.effects[n] = replace(self.effects[n], new_values=values)
        if not ends:
            self._add(END, values)

    def _created(self) -> tuple[int, Effect]:
        return next((n, one) for n, one in enumerate(self.effects) if one.op == CREATE)

    def _add(self, op: str, values: dict[str, Any]) -> None:
        """Add an effect without words, of the change that made the record."""
        _, created = self._created()
        self.effects.append(
            self._new(
                op,
                created.change,
                created.by,
                created.at,
                words=_NO_WORDS,
                new_values=values,
            )
        )

    def _agree(self) -> None:
        """Let the effects make the state that is stored, where they do not yet."""
        row = self.former.row
        place, created = self._created()
        if row.status == DISCARDED and not created.undone:
            self.effects[place] = replace(created, undone=True)
        folded = fold(self.effects)
        if row.status in (ACTIVE, SUPERSEDED) and folded.valid_to != row.valid_to:
            self._move_ends(row.valid_to)
        ends = [e for e in self.effects if e.counts and e.op in ENDING]
        if row.status == SUPERSEDED and row.valid_to not in [e.valid_to for e in ends]:
            values = {"status": SUPERSEDED, "valid_to": text_of(row.valid_to)}
            self._add(EXPIRE, values)
        folded = fold(self.effects)
        if HIDDEN in (row.status, folded.status) and row.status != folded.status:
            op = HIDE if row.status == HIDDEN else UNHIDE
            self._add(op, {"status": row.status})
        for name in ("confirmation", "facet", "event"):
            if getattr(folded, name) != row._mapping[name]:
                self._add("change", {name: row._mapping[name]})

    def _move_ends(self, until: datetime | None) -> None:
        """Let no effect end the record before the time that is stored."""
        for place, effect in enumerate(self.effects):
            if not (effect.counts and effect.op in ENDING):
                continue
            if self.former.row.status == ACTIVE:
                self.effects[place] = replace(effect, undone=True)
            elif until and effect.valid_to and effect.valid_to < until:
                values = {**effect.new_values, "valid_to": text_of(until)}
                self.effects[place] = replace(effect, new_values=values)


def _numbered(made: Iterable[Effect], last: int) -> tuple[list[Effect], int]:
    """Number the effects that have no entry in the history."""
    numbered = list[Effect]()
    for effect in made:
        if effect.n == 0:
            last += 1
        numbered.append(effect if effect.n else replace(effect, n=last))
    return sorted(numbered, key=lambda effect: effect.n), last


def _check(connection: Connection, row: Row[Any], made: Sequence[Effect]) -> None:
    """Raise where the effects do not make the state that is stored.

    When a hidden or discarded record ended was not always stored.
    """
    folded = fold(made)
    stored = State(**{name: row._mapping[name] for name in STATE})
    if stored.status in (HIDDEN, DISCARDED) and folded.valid_to != stored.valid_to:
        until = {"valid_to": folded.valid_to}
        connection.execute(sa.update(records).where(records.c.n == row.n).values(until))
        stored = replace(stored, valid_to=folded.valid_to)
    if folded != stored:
        raise StorageError(
            f"The history of the record {row.record_id!r} does not make what is stored "
            "of it; nothing was changed. Please report it; the former version of "
            "langmem-graph still opens this memory."
        )


def drop(connection: Connection) -> None:
    """Delete the tables that effects have taken the place of."""
    FORMER.drop_all(connection)
