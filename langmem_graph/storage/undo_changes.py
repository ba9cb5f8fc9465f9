"""Undo: takes back the latest change of a record, or all that one message caused.

The effects do not count any more, and the records' states are computed anew. A record
whose creation was taken back becomes `discarded`; the history gets an `undo` for each
effect.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, delete, func, or_, select

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import item_key
from langmem_graph.schemas import Record
from langmem_graph.storage import (
    record_effects,
    record_queries,
    record_writes,
    removed_words,
)
from langmem_graph.storage.effects import CREATE, DISCARDED, REFINE, UNDO, Effect
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import BY_HAND, Change
from langmem_graph.storage.tables import effects, record_sources, records
from langmem_graph.storage.user_room import note_deletion


@dataclass
class ToUndo:
    """What is taken back together."""

    effects: dict[int, Effect]
    """By their numbers."""
    message: int | None = None
    """The message that supports no record any more."""
    supported: set[int] = field(default_factory=set)
    """The records that it supports."""

    def made(self) -> set[int]:
        """The records that will be discarded."""
        return {one.record for one in self.effects.values() if one.op == CREATE}

    def touched(self) -> list[int]:
        """The records that will change."""
        return sorted({one.record for one in self.effects.values()} | self.supported)


def undo(
    services: Services, user_id: str, *, record: str | None, message: str | None
) -> list[Record]:
    """Take back a record's latest change, or what a message caused; see
    `UserMemory.undo`.
    """
    if (record is None) == (message is None):
        raise InvalidInputError("Name one thing to undo: a record or a message.")
    named = item_key(message if record is None else record)
    with services.known_room(user_id) as room:
        if room is None:
            return []
        with room.database.write_transaction() as connection:
            if record is not None:
                undone = latest_change(connection, named)
            else:
                undone = caused_by(connection, named)
            restored = take_back(connection, undone)
            if restored:
                note_deletion(connection)
            stored = record_queries.records_by_number(connection, undone.touched())
        if restored:
            room.finish_deletion()
            services.drain(room, at_least=services.settings.storage.index_batch)
    return [stored[n] for n in sorted(stored)]


def latest_change(connection: Reading, record_id: str) -> ToUndo:
    """The latest change of a record, in all records that it touched."""
    numbers = record_queries.numbers_of(connection, [record_id])
    if not numbers:
        raise InvalidInputError(f"There is no record {record_id!r}.")
    latest = _counting(connection, effects.c.record == numbers[record_id])
    # a detail of another record leaves it as it is
    latest = [effect for effect in latest if effect.op != REFINE]
    if not latest:
        return ToUndo({})
    undone = _together(connection, effects.c.change == latest[-1].change)
    if newest := _first_to_undo(connection, undone):
        raise InvalidInputError(
            f"The latest change of {record_id!r} has others on top of it: undo "
            f"{newest!r} first."
        )
    return undone


def caused_by(connection: Reading, message_id: str) -> ToUndo:
    """The records made from a message alone, the changes that it made, the records it
    supports.
    """
    known = record_queries.message_numbers(connection, [message_id])
    if message_id not in known:
        raise InvalidInputError(f"There is no message {message_id!r}.")
    n = known[message_id][0]
    e = effects.c
    s = record_sources.c
    alone = _made_alone(connection, n)
    made = select(e.change).where(e.record.in_(alone), e.op == CREATE)
    created = e.record.in_(alone) & e.change.in_(made)
    undone = _together(connection, or_(created, e.message == n, e.agreed_message == n))
    undone.message = n
    supported = select(s.record).where(s.message == n, s.supporting.is_(True))
    undone.supported = set(connection.scalars(supported)) - undone.made()
    if newest := _first_to_undo(connection, undone):
        raise InvalidInputError(
            f"Later changes build on what {message_id!r} caused: undo the record "
            f"{newest!r} first."
        )
    return undone


def _made_alone(connection: Reading, message: int) -> list[int]:
    """The records that this message alone carries and that are not discarded."""
    s = record_sources.c
    cited = select(s.record).where(s.message == message, s.supporting.is_(False))
    alone = (
        select(s.record)
        .join(records, records.c.n == s.record)
        .where(
            s.record.in_(cited), s.supporting.is_(False), records.c.status != DISCARDED
        )
        .group_by(s.record)
        .having(func.count() == 1)
    )
    return list(connection.scalars(alone))


def _counting(connection: Reading, meant: ColumnElement[bool]) -> list[Effect]:
    """The effects that are meant and that have not been taken back, oldest first."""
    found = record_effects.effects_where(connection, meant)
    return [effect for effect in found if effect.counts]


def _together(connection: Reading, meant: ColumnElement[bool]) -> ToUndo:
    """The effects that are meant, and all that the records they made have replaced."""
    undone = ToUndo({one.n: one for one in _counting(connection, meant)})
    by_made = effects.c.by_record.in_(undone.made())
    undone.effects |= {one.n: one for one in _counting(connection, by_made)}
    return undone


def _first_to_undo(connection: Reading, undone: ToUndo) -> str | None:
    """The id of the newest record of a later change that builds on the creation of a
    record.

    Other changes can be taken back in any order.
    """
    touched = set[int]()
    for effect in undone.effects.values():
        if effect.op != CREATE:
            continue
        for later in _counting(connection, effects.c.record == effect.record):
            is_other = later.n not in undone.effects and later.change != effect.change
            if later.n > effect.n and is_other and later.op != REFINE:
                whole = _counting(connection, effects.c.change == later.change)
                if _is_said(whole):
                    touched |= {one.record for one in whole if one.op != REFINE}
    if not touched:
        return None
    newest = max(touched)
    return record_queries.records_by_number(connection, [newest])[newest].record_id


def _is_said(whole: Collection[Effect]) -> bool:
    """Whether a message made a change, or it concerns several records.

    So it builds on the creation of a record; what the rules of the schedule did to the
    record alone does not.
    """
    is_of_message = any(one.message is not None for one in whole)
    return is_of_message or len({one.record for one in whole}) > 1


def take_back(connection: Reading, undone: ToUndo) -> bool:
    """Let the effects not count, and drop the support of the message.

    Returns whether words were put back that it had asked to forget.
    """
    change = Change.new(BY_HAND)
    made = undone.made()
    for n in sorted(undone.effects, reverse=True):
        effect = undone.effects[n]
        if effect.op != REFINE:
            note = Change(change.by, effect.change, change.id)
            record_writes.add_effect(connection, effect.record, UNDO, note, {})
        _drop_support(
            connection, [effect.record], [effect.message, effect.agreed_message]
        )
    record_effects.mark_undone(connection, undone.effects)
    _drop_support(connection, undone.supported, [undone.message])
    record_effects.refold(connection, undone.touched())
    pairs = [
        (one.by_record, one.record)
        for one in undone.effects.values()
        if one.by_record is not None and one.by_record not in made
    ]
    record_effects.relink(connection, pairs)
    if undone.message is None:
        return False
    restored = removed_words.restore(connection, undone.message)
    return bool(restored.messages or restored.records)


def _drop_support(
    connection: Reading, items: Iterable[int], messages: Sequence[int | None]
) -> None:
    s = record_sources.c
    rows = s.record.in_(list(items)) & s.message.in_(messages) & s.supporting.is_(True)
    connection.execute(delete(record_sources).where(rows))
