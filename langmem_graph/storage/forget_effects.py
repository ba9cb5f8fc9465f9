"""What becomes of effects when messages and records are forgotten, or expire.

Forgetting deletes all effects that rest on what goes: the other records are as if it
had never been there. Expiry deletes the words: what they did stays done.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product

from sqlalchemy import delete, insert, or_, select, update

from langmem_graph.storage import record_effects, record_queries, record_writes
from langmem_graph.storage.effects import ENDING, EXPIRE, RESTORE, UNDO, Effect, text_of
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import SUPERSEDES, Change
from langmem_graph.storage.tables import effects, links, records

_REASON = "what had changed it was forgotten"
Numbers = Collection[int]
_NO_WORDS = dict.fromkeys(
    ("relation", "message", "quote", "agreed_message", "agreed_quote", "reason")
)


def forget_effects(connection: Reading, items: Numbers, gone: Numbers) -> list[int]:
    """Take back what `items` and `gone`, records and messages to be deleted next, did
    to others.

    The records that hold again are returned.
    """
    _bridge(connection, items)
    concerned = _concerned(connection, items, gone)
    others = {effect.record for effect in concerned} - set(items)
    held = record_queries.active(connection, others)
    _delete(connection, concerned)
    _delete_notes(connection, [one for one in concerned if one.record in others])
    _delete_links(connection, items, concerned)
    record_effects.refold(connection, others)
    restored = sorted(record_queries.active(connection, others) - held)
    change = Change.new("forget", _REASON)
    for n in restored:
        record_writes.add_effect(connection, n, RESTORE, change, {})
    return restored


def expire_effects(
    connection: Reading, items: Numbers, kept: Numbers, gone: Numbers
) -> None:
    """Take the words from what `items` and `gone`, which expire next, have done to
    other records.

    What they did stays done, and so does what the records did that are `kept` without a
    message of `gone` that said them: a record that was ended so does not hold again,
    whatever is forgotten.
    """
    _bridge(connection, items)
    concerned = [
        effect
        for effect in _concerned(connection, items, gone)
        if effect.record not in items
    ]
    e = effects.c
    by_kept = e.by_record.in_(kept) & e.message.is_(None)
    wordless = record_effects.effects_where(connection, by_kept)
    for effect in [*concerned, *wordless]:
        if effect.counts and effect.op in ENDING:
            _end_for_good(connection, effect)
    lost = [effect for effect in concerned if _is_lost(effect, items)]
    _delete(connection, record_effects.effects_where(connection, e.record.in_(items)))
    _delete(connection, lost)
    left = {effect.n for effect in concerned} - {effect.n for effect in lost}
    stripped = update(effects).where(e.n.in_(left)).values(**_NO_WORDS)
    connection.execute(stripped)
    _delete_links(connection, items, lost)


def _concerned(connection: Reading, items: Numbers, gone: Numbers) -> list[Effect]:
    """What these messages did to records, and what was done to these records or by
    them.
    """
    e = effects.c
    concerned = or_(
        e.message.in_(gone),
        e.agreed_message.in_(gone),
        e.record.in_(items),
        e.by_record.in_(items),
    )
    return record_effects.effects_where(connection, concerned)


def _is_lost(effect: Effect, items: Numbers) -> bool:
    """Whether nothing of an effect is left without its words and these records."""
    is_bare_end = effect.op in ENDING and effect.by_record is None
    return effect.by_record in items or (is_bare_end and effect.op != EXPIRE)


def _end_for_good(connection: Reading, ended: Effect) -> None:
    """Let a record go on being ended without what had ended it."""
    e = effects.c
    same = (e.record == ended.record) & (e.op == EXPIRE) & (e.change == ended.change)
    if connection.scalar(select(e.n).where(same).limit(1)) is None:
        change = Change(ended.by, None, ended.change)
        record_writes.add_effect(
            connection, ended.record, EXPIRE, change, ended.new_values, at=ended.at
        )


def _delete(connection: Reading, several: Iterable[Effect]) -> None:
    """Delete effects, and the reasons of others of the same changes."""
    chosen = list(several)
    e = effects.c
    changes = {effect.change for effect in chosen}
    reasons = e.change.in_(changes) & (e.op != UNDO) & e.reason.is_not(None)
    connection.execute(update(effects).where(reasons).values(reason=None))
    connection.execute(delete(effects).where(e.n.in_([one.n for one in chosen])))


def _delete_notes(connection: Reading, deleted: Iterable[Effect]) -> None:
    """Delete the notes that these effects, which are deleted, were taken back."""
    e = effects.c
    for n, change in {(effect.record, effect.change) for effect in deleted}:
        note = (e.record == n) & (e.op == UNDO) & (e.reason == change)
        connection.execute(delete(effects).where(note))


def _delete_links(
    connection: Reading, items: Numbers, deleted: Iterable[Effect]
) -> None:
    """Delete all links of these records, and those that these effects had made."""
    own = links.c.source.in_(items) | links.c.target.in_(items)
    connection.execute(delete(links).where(own))
    pairs = [(one.by_record, one.record) for one in deleted if one.by_record]
    record_effects.relink(connection, pairs)


def _bridge(connection: Reading, items: Numbers) -> None:
    """Let what had superseded a record supersede what the record had superseded."""
    e = effects.c
    counts = e.op.in_(ENDING) & e.undone.is_(False)
    for n in items:
        over = record_effects.effects_where(
            connection, counts, e.record == n, e.by_record.is_not(None)
        )
        under = record_effects.effects_where(connection, counts, e.by_record == n)
        pairs = [(newer, older.record) for newer, older in product(over, under)]
        _copy(connection, pairs)


def _copy(connection: Reading, pairs: Sequence[tuple[Effect, int]]) -> None:
    """Let effects that ended a record also end those that the record had superseded."""
    linked = {
        (newer.by_record, older)
        for newer, older in pairs
        if newer.by_record is not None
    }
    begun = _begun(connection, {n for pair in linked for n in pair})
    rows = [_copied(newer, older, begun) for newer, older in pairs]
    if rows:
        connection.execute(insert(effects), rows)
    record_writes.add_links(connection, sorted(linked), SUPERSEDES)


def _begun(connection: Reading, items: Numbers) -> dict[int, datetime]:
    """Since when these records have held."""
    r = records.c
    rows = rows_where_in(connection, select(r.n, r.valid_from), r.n, items)
    return {row.n: row.valid_from for row in rows}


def _copied(
    newer: Effect, older: int, begun: Mapping[int, datetime]
) -> dict[str, object]:
    """The row of an effect upon an older record."""
    until = newer.valid_to
    copied = replace(newer, record=older)
    # the record between never held; the older one did, until then
    if newer.relation == "corrects" and newer.by_record is not None:
        until = begun[newer.by_record]
        copied = replace(copied, relation="replaces", since=until)
    since = begun[older]
    end = {**newer.new_values, "valid_to": text_of(max(since, until or since))}
    row = {name: value for name, value in vars(copied).items() if name != "n"}
    return {**row, "new_values": end}
