"""The tables of all rooms in a PostgreSQL database, made by `langmem-graph migrate`.

They are those of a ledger's file, with the room first in every key. Numbers are counted
in each room, by triggers, as SQLite counts them in each file.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Event
from time import monotonic
from typing import Any

import sqlalchemy as sa
from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, Engine
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.exc import DBAPIError, OperationalError

from langmem_graph.errors import SchemaTooNewError, StorageError
from langmem_graph.settings import Settings
from langmem_graph.storage import former_history, postgres_vacuum
from langmem_graph.storage import tables as ledger
from langmem_graph.storage.postgres_connection import remove_time_limit
from langmem_graph.storage.postgres_database import (
    ROLE,
    PostgresDatabase,
    connect,
    explained,
    place_of,
    room_of,
)
from langmem_graph.storage.postgres_index import having_size, neighbours
from langmem_graph.storage.postgres_words import (
    COVERED,
    OWN_ROOM,
    SCHEMA,
    TABLES,
    room_column,
)
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.storage.rehearsal import Rehearsal
from langmem_graph.storage.tables import TRACES_LEFT, get_meta
from langmem_graph.threads import waited

VERSION = 7
# the advisory lock under which one process at a time migrates
_MIGRATING = 7_240_811_923
_TYPES = {
    sa.Integer: sa.BigInteger(),
    # texts are compared and ordered as SQLite does, by byte
    sa.String: sa.Text(collation="C"),
    sa.Float: sa.Double(),
}


def _column(column: sa.Column[Any]) -> sa.Column[Any]:
    kind: Any = next(
        (_TYPES[t] for t in type(column.type).__mro__ if t in _TYPES), column.type
    )
    key = column.primary_key
    return sa.Column(column.name, kind, primary_key=key, autoincrement=False,
                     nullable=column.nullable)  # fmt: skip


def _in_rooms(table: sa.Table) -> sa.Table:
    """The table of all rooms for a table of a ledger."""
    parts: list[sa.schema.SchemaItem] = [room_column(), *map(_column, table.columns)]
    for constraint in table.constraints:
        if not isinstance(constraint, sa.UniqueConstraint | sa.ForeignKeyConstraint):
            continue
        names = [column.name for column in constraint.columns]
        if isinstance(constraint, sa.UniqueConstraint):
            parts.append(sa.UniqueConstraint("room", *names))
        else:
            target = constraint.elements[0].column.table.name
            there = [f"{SCHEMA}.{target}.room", f"{SCHEMA}.{target}.n"]
            parts.append(sa.ForeignKeyConstraint(["room", *names], there))
    for index in table.indexes:
        columns = [column.name for column in index.columns]
        parts.append(sa.Index(index.name, "room", *columns))
    return sa.Table(table.name, TABLES, *parts)


for _table in ledger.ALL_TABLES:
    _in_rooms(_table)

numbers = sa.Table(
    "numbers",
    TABLES,
    room_column(),
    sa.Column("name", sa.Text(collation="C"), primary_key=True),
    sa.Column("last", sa.BigInteger, nullable=False),
)
"""The greatest number that was deleted from a table, so that it is not given again."""

ROOM_TABLES = list(TABLES.sorted_tables)
work = sa.Table(
    "work",
    TABLES,
    sa.Column("room", UUID(), primary_key=True),
    sa.Column("due_at", sa.Float),
    sa.Column("claimed_until", sa.Float, nullable=False, server_default="0"),
    sa.Index("work_by_due", "due_at"),
)
"""The rooms there are, and since when each has due work; no text, and outside the
second wall.
"""

_THERE = sa.text(f"SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}'")
_DUE = f"""
CREATE OR REPLACE FUNCTION {SCHEMA}.note_work()
RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO {SCHEMA}.work (room, due_at)
    VALUES ({OWN_ROOM}, extract(epoch FROM now()))
  ON CONFLICT (room) DO UPDATE SET due_at = coalesce(work.due_at, excluded.due_at);
  RETURN NULL; END $$
"""
_NUMBER = f"""
CREATE OR REPLACE FUNCTION {SCHEMA}.number_{{name}}()
RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.n := coalesce(NEW.n, 1 + greatest(0,
    (SELECT max(n) FROM {SCHEMA}.{{name}} WHERE room = NEW.room),
    (SELECT last FROM {SCHEMA}.numbers WHERE room = NEW.room AND name = '{{name}}')));
  RETURN NEW; END $$
"""
_KEEP = f"""
CREATE OR REPLACE FUNCTION {SCHEMA}.keep_{{name}}()
RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO {SCHEMA}.numbers SELECT room, '{{name}}', max(n) FROM gone GROUP BY room
  ON CONFLICT (room, name) DO UPDATE SET last = greatest(numbers.last, excluded.last);
  RETURN NULL; END $$
"""
_SIZES = (
    f"ALTER TABLE {SCHEMA}.postings ADD COLUMN size integer",
    f"UPDATE {SCHEMA}.postings SET size = indexed.size FROM {SCHEMA}.indexed"
    " WHERE (postings.room, postings.words, postings.item)"
    " = (indexed.room, indexed.words, indexed.item)",
    f"ALTER TABLE {SCHEMA}.postings ALTER size SET NOT NULL",
    f"DROP INDEX {SCHEMA}.postings_by_item",
    f"CREATE INDEX postings_by_item ON {SCHEMA}.postings (item, room, words)",
    f"INSERT INTO {SCHEMA}.totals SELECT room, words, count(*), sum(size)"
    f" FROM {SCHEMA}.indexed GROUP BY room, words",
)
"""What version 2 keeps of words beside what version 1 kept."""
_NOT_HELD = (
    f"DELETE FROM {SCHEMA}.record_changes WHERE held",
    f"ALTER TABLE {SCHEMA}.record_changes DROP COLUMN held",
)
"""What versions before 5 kept of changes that waited for somebody to confirm them."""
_NO_NOTES_OF_DELETED = (
    f"DELETE FROM {SCHEMA}.meta WHERE starts_with(key, '{ledger.DELETED_ID}')"
)
"""Versions before 7 kept hashes from which a sentence that was deleted can be
guessed.
"""
_LIMIT_LOCKS = sa.text("SELECT set_config('lock_timeout', :limit, true)")
_NOTICE_A_KILLED_CLIENT = "SET LOCAL client_connection_check_interval = '5s'"
_HOLDER = sa.text(
    "SELECT pid, application_name FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " LEFT JOIN pg_class ON pg_class.oid = relation"
    " WHERE granted AND pid <> pg_backend_pid() AND datname = current_database()"
    f" AND (relnamespace = to_regnamespace('{SCHEMA}')"
    " OR locktype = 'advisory' AND ((classid::bigint << 32) | objid::bigint) = :key)"
    " ORDER BY xact_start LIMIT 1"
)
_ENTER_ROOM = sa.text(
    "SELECT set_config('app.room', :room, true), set_config('app.rooms', :room, true)"
)
_LAST_ENTRY = sa.text(
    f"SELECT greatest((SELECT max(n) FROM {SCHEMA}.history WHERE room = {OWN_ROOM}),"
    f" (SELECT last FROM {SCHEMA}.numbers"
    f" WHERE room = {OWN_ROOM} AND name = 'history'), 0)"
)
_NOTE_LAST_EFFECT = sa.text(
    f"INSERT INTO {SCHEMA}.numbers (name, last) VALUES ('effects', :last)"
)
_DROP_FORMER_HISTORY = (
    f"DROP TABLE {SCHEMA}.record_changes, {SCHEMA}.history",
    *(
        f"DROP FUNCTION IF EXISTS {SCHEMA}.{kind}_{name}()"
        for name in ("history", "record_changes")
        for kind in ("number", "keep")
    ),
    f"DELETE FROM {SCHEMA}.numbers WHERE name IN ('history', 'record_changes')",
)
_USELESS = sa.text(
    "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid"
    f" WHERE relnamespace = '{SCHEMA}'::regnamespace AND starts_with(relname, :start)"
    " AND (relname <> :name OR NOT indisvalid)"
)
"""Indexes of a room's own for vectors of another size, or that an interrupted run has
left.
"""
_SAMPLED = sa.text(
    "SELECT count(*) FROM pg_stats WHERE (schemaname, tablename, attname)"
    f" = ('{SCHEMA}', :table, :column)"
)


def prepare(url: str, users: Iterable[str] = (), *, rewrite: bool = False) -> int:
    """Prepare the database, and make an index of their own for these users' large
    rooms.

    Args:
        url: of the database.
        users: ids of users.
        rewrite: also take everything that was deleted out of all pages, however long
            that takes.
    """
    settings = Settings().storage
    engine = connect(url, settings)
    # an index, or a table that is rewritten, may take hours
    sa.event.listen(engine, "connect", remove_time_limit)
    try:
        version = migrate(engine)
        for user_id in users:
            _make_index(PostgresDatabase(engine, room_of(user_id), settings))
        if rewrite:
            _rewrite(engine, settings.busy_timeout_seconds)
        return version
    finally:
        engine.dispose()


def _rewrite(engine: Engine, seconds: float) -> None:
    rooms = TABLES.tables[f"{SCHEMA}.meta"]
    with explained(engine):
        with engine.begin() as connection:
            now = connection.scalar(sa.text("SELECT pg_current_xact_id()::xid::text"))
            notes = connection.scalars(
                sa.select(rooms.c.value).where(rooms.c.key == TRACES_LEFT)
            )
            known = notes.all()
        again = partial(waited, monotonic() + seconds, Event())
        if not postgres_vacuum.remove_deleted(engine, str(now), again, math.inf):
            raise StorageError(
                "What was deleted could not be removed from every page: a table, or a "
                "snapshot of "
                "it, is in use, or this login may not rewrite it. Do it again as the "
                "tables' owner."
            )
        with engine.begin() as connection:
            gone = (rooms.c.key == TRACES_LEFT) & rooms.c.value.in_(known)
            connection.execute(sa.delete(rooms).where(gone))


def _make_index(database: PostgresDatabase) -> None:
    """An approximate index over one room's vectors; each statement of that room may use
    it.
    """
    size = database.read(
        lambda connection: get_meta(connection, "dimension"), EVERYTHING
    )
    if size is None:
        raise StorageError(
            "Nothing is embedded of this user; there is nothing to index."
        )
    for layer in ledger.LAYERS:
        start = f"hnsw_{database.room.hex}_{layer}"
        name = f"{start}_{size}"
        command = (
            f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {neighbours} USING hnsw"
            f" ((embedding::halfvec({int(size)})) halfvec_cosine_ops)"
            f" WHERE room = '{database.room}' AND layer = '{layer}'"
            f" AND {having_size(int(size))}"
        )
        with explained(database.engine), database.engine.connect() as connection:
            bare = connection.execution_options(isolation_level="AUTOCOMMIT")
            useless = bare.scalars(_USELESS, {"start": start, "name": name})
            for other in useless.all():
                bare.exec_driver_sql(f"DROP INDEX CONCURRENTLY {SCHEMA}.{other}")
            bare.exec_driver_sql(command)


def rehearse(url: str) -> Rehearsal:
    """Bring a database's tables up to date, count what that made, and take it back."""
    engine = connect(url, Settings().storage)
    sa.event.listen(engine, "connect", remove_time_limit)
    place = place_of(engine)
    try:
        with _migrating(engine) as connection:
            version = _version(connection, place)
            if version is None:
                return Rehearsal(place, 0, 0, 0)
            if version < VERSION:
                _bring_up_to_date(connection, version)
            check_version(connection, place)
            names = (f"{SCHEMA}.records", f"{SCHEMA}.effects")
            counts = [
                connection.exec_driver_sql(f"SELECT count(*) FROM {name}").scalar_one()
                for name in names
            ]
            connection.rollback()
            return Rehearsal(place, version, *counts)
    finally:
        engine.dispose()


def migrate(engine: Engine) -> int:
    """Prepare the database, or bring it up to date; returns the version of its tables.

    Raises:
        StorageError: the login may not do that, the extension `vector` is not
            installed, or another session holds a table for too long.
    """
    with _migrating(engine) as connection:
        version = _version(connection, place_of(engine))
        if version is None:
            for command in _commands():
                connection.exec_driver_sql(command)
            TABLES.create_all(connection, checkfirst=False)
            for command in _commands_after():
                connection.exec_driver_sql(command)
        elif version < VERSION:
            _bring_up_to_date(connection, version)
        return check_version(connection, place_of(engine))


@contextmanager
def _migrating(engine: Engine) -> Iterator[Connection]:
    """A transaction that may change the tables, for one process at a time.

    It waits for no lock for ever, as all who come later wait behind it.
    """
    seconds = Settings().storage.busy_timeout_seconds
    with explained(engine), engine.connect() as connection, connection.begin():
        connection.execute(_LIMIT_LOCKS, {"limit": f"{seconds * 1_000:.0f}"})
        with suppress(DBAPIError), connection.begin_nested():  # of PostgreSQL 14
            connection.exec_driver_sql(_NOTICE_A_KILLED_CLIENT)
        try:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATING)))
            yield connection
        except OperationalError as error:
            if not isinstance(error.orig, LockNotAvailable):
                raise
            raise StorageError(
                f"The database {place_of(engine)} was not changed: {_holder(engine)} "
                f"has held a lock on its tables for {seconds:.0f} s. Let it end, and "
                "do this again."
            ) from error


def _holder(engine: Engine) -> str:
    """The session of those with a lock on our tables whose transaction is the
    oldest.
    """
    with engine.connect() as connection:
        found = connection.execute(_HOLDER, {"key": _MIGRATING}).first()
    if found is None:
        return "another session"
    pid, program = found
    return (
        f"the session {pid} of {program or 'another program'} (SELECT "
        f"pg_terminate_backend({pid}) ends it)"
    )


def _bring_up_to_date(connection: Connection, version: int) -> None:
    """Make what an older version did not have, behind both walls, and drop what is no
    longer kept.
    """
    there = set(connection.scalars(_THERE))
    added = [table for table in ROOM_TABLES if table.name not in there]
    TABLES.create_all(connection, tables=added)
    commands = [
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {ROLE}" for table in added
    ]
    commands += [command for table in added for command in _policies(table)]
    commands += [command for table in added for command in _counted(table)]
    commands += _SIZES if version == 1 else ()
    if version < 5:
        commands += [COVERED, *_NOT_HELD]
    commands.append(_NO_NOTES_OF_DELETED)
    for command in commands:
        connection.exec_driver_sql(command)
    if version < 6:
        _make_one_history(connection)
    for table in ROOM_TABLES:
        _forget_samples(connection, table)
    connection.exec_driver_sql(f"UPDATE {SCHEMA}.version SET version = {VERSION}")


def _make_one_history(connection: Connection) -> None:
    """Turn what versions before 6 kept of records' history into effects."""
    connection.exec_driver_sql(f"SET LOCAL search_path TO {SCHEMA}, public")
    for room in connection.scalars(sa.select(work.c.room)).all():
        connection.execute(_ENTER_ROOM, {"room": str(room)})
        last = connection.execute(_LAST_ENTRY).scalar_one()
        last = former_history.convert(connection, last)
        connection.execute(_NOTE_LAST_EFFECT, {"last": last})
    for command in _DROP_FORMER_HISTORY:
        connection.exec_driver_sql(command)


def _forget_samples(connection: Connection, table: sa.Table) -> None:
    """Let ANALYZE keep no samples of what users said, and drop those that it has of
    older tables.

    PostgreSQL drops a column's samples where its type is set, also where that is the
    same one.
    """
    for column in _told(table):
        connection.exec_driver_sql(_unsampled(table, column))
        if connection.scalar(_SAMPLED, {"table": table.name, "column": column.name}):
            kind = column.type.compile(connection.dialect)
            change = f"ALTER TABLE {table} ALTER {column.name} TYPE {kind}"
            connection.exec_driver_sql(change)


def check_version(connection: Connection, place: str) -> int:
    """The version of the tables, which must be the one that this library knows."""
    version = _version(connection, place)
    if version is None:
        raise StorageError(
            f"The database {place} is not prepared: langmem-graph migrate URL"
        )
    if version < VERSION:
        raise StorageError(
            f"The database {place} has schema version {version}, which is older than "
            f"{VERSION}. "
            "Bring it up to date, nothing is lost: langmem-graph migrate URL"
        )
    if version > VERSION:
        raise SchemaTooNewError(
            f"The database {place} has schema version {version}; this langmem-graph "
            "knows up to "
            f"{VERSION}. Nothing was changed. Upgrade: pip install -U langmem-graph."
        )
    return version


def _version(connection: Connection, place: str) -> int | None:
    table = f"{SCHEMA}.version"
    if connection.scalar(sa.text(f"SELECT to_regclass('{table}')")) is None:
        return None
    rows = connection.execute(sa.text(f"SELECT * FROM {table} LIMIT 2")).all()
    if len(rows) != 1 or rows[0]._fields != ("version",) or type(rows[0][0]) is not int:
        raise StorageError(
            f"The table {table} of the database {place} is another program's. Nothing "
            "was changed. Use another database."
        )
    return rows[0][0]


def _commands() -> Iterator[str]:
    """What must be there before the tables: the extension, the schema and the role."""
    yield "CREATE EXTENSION IF NOT EXISTS vector"
    yield f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
    yield f"""
        DO $$ BEGIN CREATE ROLE {ROLE} NOLOGIN NOINHERIT;
        EXCEPTION WHEN duplicate_object THEN NULL; END $$"""
    yield f"GRANT {ROLE} TO CURRENT_USER"
    yield f"CREATE TABLE {SCHEMA}.version AS SELECT {VERSION} AS version"


def _commands_after() -> Iterator[str]:
    """What needs the tables: both kinds of triggers, the rights of the role, and its
    policies.
    """
    yield _DUE
    for name in ("outbox", "unread", "meta"):
        yield _trigger("note_work", name, "AFTER INSERT", "STATEMENT")
    for table in ROOM_TABLES:
        yield from _counted(table)
    yield f"GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE}"
    yield (
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO "
        f"{ROLE}"
    )
    yield f"REVOKE INSERT, UPDATE, DELETE ON {SCHEMA}.version FROM {ROLE}"
    for table in ROOM_TABLES:
        yield from _policies(table)


def _counted(table: sa.Table) -> Iterator[str]:
    """The triggers that number a table's rows in each room, as SQLite does in a
    file.
    """
    name = table.name
    if "n" in table.c and table is not neighbours:
        yield _NUMBER.format(name=name)
        yield _trigger(f"number_{name}", name, "BEFORE INSERT", "ROW")
    if name in ledger.NEVER_REUSED:
        yield _KEEP.format(name=name)
        yield _trigger(
            f"keep_{name}", name, "AFTER DELETE", "STATEMENT", "OLD TABLE AS gone"
        )


def _policies(table: sa.Table) -> Iterator[str]:
    """The second wall around a table: it shows and takes rows of the transaction's
    rooms alone.
    """
    yield from (_unsampled(table, column) for column in _told(table))
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    # Each in a SELECT of its own: PostgreSQL then computes it once, and not for every
    # row.
    own = "room = (SELECT current_setting('app.room', true)::uuid)"
    rooms = "(SELECT string_to_array(current_setting('app.rooms', true), ',')::uuid[])"
    seen = f"room = ANY ({rooms}::uuid[])"
    yield f"CREATE POLICY own ON {table} TO {ROLE} USING ({own}) WITH CHECK ({own})"
    yield f"CREATE POLICY seen ON {table} FOR SELECT TO {ROLE} USING ({seen})"


def _told(table: sa.Table) -> list[sa.Column[Any]]:
    """The columns of which ANALYZE would keep some of what users said."""
    return [
        c for c in table.columns if not isinstance(c.type, sa.Integer | sa.Float | UUID)
    ]


def _unsampled(table: sa.Table, column: sa.Column[Any]) -> str:
    return f"ALTER TABLE {table} ALTER {column.name} SET STATISTICS 0"


def _trigger(function: str, table: str, when: str, each: str, seen: str = "") -> str:
    referencing = f" REFERENCING {seen}" if seen else ""
    return (
        f"CREATE TRIGGER {function} {when} ON {SCHEMA}.{table}{referencing}"
        f" FOR EACH {each} EXECUTE FUNCTION {SCHEMA}.{function}()"
    )
