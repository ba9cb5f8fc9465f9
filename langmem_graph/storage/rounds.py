"""Rounds: topic tracks and the profile as stored, and which records have changed since
each round.

The checkpoints are numbers of effects, so that a record that only ended counts
as well. They are stored in the transaction that stores a round's result: a killed
process repeats the round.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.sqlite import insert as upsert

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.storage.effects import REFINE
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.number_lists import rows_where_in
from langmem_graph.storage.reading import Reading
from langmem_graph.storage.record_writes import now
from langmem_graph.storage.tables import (
    effects,
    files,
    get_meta,
    messages,
    record_sources,
    records,
    set_meta,
)
from langmem_graph.topics.track_and_profile_files import is_file_name
from langmem_graph.view import own_view

_CAUSES = "causes_seen"
_PROFILE = "profile_seen"
_TOPICS = "topics_seen"
_REFUSED = "topics_refused"
_EARLIER_TOPICS = "topic_checkpoint"
"""The key of a first version of the checkpoint: the number of the last record that was
seen.
"""
FILE_KEYS = (_TOPICS, _REFUSED, _PROFILE, _EARLIER_TOPICS)
"""The keys that mean nothing any more once all tracks and the profile are deleted."""
_NO_CHANGE = ("unschedule", "postpone", REFINE)
"""What the rules of the schedule note as time goes by, where no message says anything
new, and details, which leave the record as it is.
"""


@dataclass(frozen=True)
class ChangedRecord:
    """A record that was stored or changed after a checkpoint."""

    n: int
    entry: int
    """The number of its last effect."""


@dataclass(frozen=True)
class ProfileSeen:
    """What the profile was last written from."""

    entry: int = 0
    """The number of the last effect at that time."""
    tracks: Mapping[str, str] = field(default_factory=dict)
    """By the name of each topic file, when it was written."""
    failures: int = 0
    """Unusable answers since then."""


def changed_since(connection: Reading, entry: int) -> list[ChangedRecord]:
    """The records that were stored or changed after a effect, in the order of
    their last.
    """
    e = effects.c
    last = func.max(e.n)
    query = select(e.record, last).where(e.n > entry, e.op.not_in(_NO_CHANGE))
    rows = connection.execute(query.group_by(e.record).order_by(last))
    return [ChangedRecord(*row) for row in rows]


def last_entry(connection: Reading) -> int:
    """The number of the latest effect; 0 where there is none."""
    return connection.scalar(select(func.max(effects.c.n))) or 0


def sessions_of(connection: Reading, items: Collection[int]) -> dict[int, int]:
    """For each record, the session of the last message that it cites or that changed
    it.
    """
    latest = dict[int, int]()
    for table in (record_sources, effects):
        query = select(table.c.record, table.c.message)
        query = query.where(table.c.message.is_not(None))
        for row in rows_where_in(connection, query, table.c.record, items):
            latest[row.record] = max(row.message, latest.get(row.record, 0))
    query = select(messages.c.n, messages.c.session)
    rows = rows_where_in(connection, query, messages.c.n, latest.values())
    session = {row.n: row.session for row in rows}
    return {n: session[message] for n, message in latest.items() if message in session}


def lasting(connection: Reading, items: Iterable[int]) -> list[int]:
    """Those of these records that say what the user is like, prefers or asks for,
    oldest first.
    """
    r = records.c
    meant = (r.facet == "persona") | r.kind.in_(("preference", "instruction"))
    rows = rows_where_in(connection, select(r.n).where(meant), r.n, items)
    return sorted(row.n for row in rows)


def causes_seen(connection: Reading) -> int:
    """The effect up to which causes were looked for."""
    return int(get_meta(connection, _CAUSES) or 0)


def note_causes(connection: Reading, entry: int) -> None:
    """Causes were looked for up to this effect."""
    set_meta(connection, _CAUSES, str(entry))


def topics_seen(connection: Reading) -> int:
    """The effect up to which changed records were shown to a round of topics."""
    if (seen := get_meta(connection, _TOPICS)) is not None:
        return int(seen)
    earlier = int(get_meta(connection, _EARLIER_TOPICS) or 0)
    return (
        connection.scalar(
            select(func.max(effects.c.n)).where(effects.c.record <= earlier)
        )
        or 0
    )


def refused_records(connection: Reading) -> dict[int, int]:
    """Records that wait for another round since every edit with them was refused: how
    often.
    """
    kept = json.loads(get_meta(connection, _REFUSED) or "{}")
    return {int(n): times for n, times in kept.items()}


def note_topics(connection: Reading, entry: int, refused: Mapping[int, int]) -> None:
    """Topics were made up to this entry; these records wait again, refused so often."""
    set_meta(connection, _TOPICS, str(entry))
    set_meta(
        connection,
        _REFUSED,
        json.dumps({str(n): times for n, times in refused.items()}),
    )


def profile_seen(connection: Reading) -> ProfileSeen:
    """What the profile was last written from."""
    kept = get_meta(connection, _PROFILE)
    return ProfileSeen(**json.loads(kept)) if kept else ProfileSeen()


def note_profile(connection: Reading, seen: ProfileSeen) -> None:
    """The profile was written from this, or could not be."""
    set_meta(connection, _PROFILE, json.dumps(vars(seen)))


@dataclass(frozen=True)
class StoredFile:
    """A topic track or the profile, as it is stored."""

    name: str
    body: str
    version: int


def all_files(connection: Reading) -> dict[str, StoredFile]:
    """All files by their names; none under a filter, as nobody knows what each line
    rests on.
    """
    if connection.where is not None:
        return {}
    columns = select(files.c.name, files.c.body, files.c.version).order_by(files.c.name)
    return {row.name: StoredFile(*row) for row in connection.execute(columns)}


def versions(connection: Reading) -> dict[str, int]:
    """How often each file was written, by its name."""
    return {name: file.version for name, file in all_files(connection).items()}


def write_files(connection: Reading, bodies: Mapping[str, str]) -> None:
    """Write these files in the caller's transaction; other files stay as they are."""
    before = versions(connection)
    for name, body in bodies.items():
        row = {"body": body, "version": before.get(name, 0) + 1, "updated_at": now()}
        made = upsert(files).values(name=name, **row)
        connection.execute(
            made.on_conflict_do_update(index_elements=["name"], set_=row)
        )


def drop_files(connection: Reading, names: list[str]) -> None:
    """Delete topic tracks whose content was merged into another one."""
    connection.execute(delete(files).where(files.c.name.in_(names)))


def tracks_written(connection: Reading) -> dict[str, str]:
    """By the name of each topic track's file, when it was written."""
    query = select(files.c.name, files.c.updated_at).where(
        files.c.name.startswith("topics/")
    )
    return {row.name: row.updated_at.isoformat() for row in connection.execute(query)}


def read_file(services: Services, user_id: str, name: object) -> str:
    """The text of one file; the error for an unknown name lists those that exist."""
    stored: dict[str, StoredFile] = services.read(own_view(user_id), all_files, {})
    if not is_file_name(name) or str(name) not in stored:
        names = ", ".join(stored) or "none yet"
        raise InvalidInputError(f"There is no file {quoted(name)}. There are: {names}.")
    return stored[str(name)].body
