"""The steps that make a ledger's tables, and that bring an older file up to date.

A file records the version of its tables in SQLite's `user_version`. Step `n` of
`MIGRATIONS` turns version `n` into version `n + 1`; a new file starts at 0 and takes
every step.
"""

import uuid
from collections.abc import Callable, Sequence

import sqlalchemy as sa

from langmem_graph.errors import SchemaTooNewError
from langmem_graph.storage import former_history
from langmem_graph.storage.full_text import MESSAGE_WORDS, RECORD_WORDS, words_of
from langmem_graph.storage.tables import (
    ALL,
    DELETED_ID,
    READ_ROLES,
    SPOKEN,
    attributes,
    call_messages,
    calls,
    clusters,
    effects,
    files,
    links,
    message_values,
    messages,
    meta,
    outbox,
    record_sources,
    records,
    removed_words,
    sessions,
    unread,
    vectors,
)


def _create_message_tables(connection: sa.Connection) -> None:
    ALL.create_all(connection, tables=[meta, sessions, messages, vectors, outbox])
    MESSAGE_WORDS.create(connection)
    connection.execute(sa.insert(meta).values(key="ledger_id", value=uuid.uuid4().hex))


def _create_record_tables(connection: sa.Connection) -> None:
    made = [attributes, records, record_sources, links, clusters, files, unread]
    ALL.create_all(connection, tables=made)
    former_history.create(connection)
    RECORD_WORDS.create(connection)
    pending = sa.select(messages.c.n, sa.literal(0.0), sa.literal(0))
    pending = pending.where(messages.c.role.in_(READ_ROLES))
    columns = ["message", "claimed_until", "attempts"]
    connection.execute(sa.insert(unread).from_select(columns, pending))


def _create_change_tables(connection: sa.Connection) -> None:
    """Origins of messages, supporting sources, changes with their words, and model
    calls.
    """
    add_column(connection, "messages", "origin", "VARCHAR NOT NULL DEFAULT 'user'")
    said_by = messages.c.role.in_(("assistant", "tool"))
    connection.execute(
        sa.update(messages).where(said_by).values(origin=messages.c.role)
    )
    other = sa.update(messages).where(messages.c.role == "system")
    connection.execute(other.values(origin="import"))
    add_column(connection, "record_sources", "supporting", "BOOLEAN NOT NULL DEFAULT 0")
    ALL.create_all(connection, tables=[calls, call_messages])
    former_history.create_changes(connection)


def _index_words_anew(connection: sa.Connection) -> None:
    """Older files hold words as SQLite splits them; now `words.py` does it for both
    engines.
    """
    for words in (MESSAGE_WORDS, RECORD_WORDS):
        words.create(connection)
    index_words(connection)


def _create_value_table(connection: sa.Connection) -> None:
    ALL.create_all(connection, tables=[message_values])


def _create_removed_words(connection: sa.Connection) -> None:
    ALL.create_all(connection, tables=[removed_words])


def _drop_held_changes(connection: sa.Connection) -> None:
    """In older files changes could wait for somebody to confirm them; none of these was
    carried out.
    """
    if _has_column(connection, "record_changes", "held"):
        connection.exec_driver_sql("DELETE FROM record_changes WHERE held")
        connection.exec_driver_sql("ALTER TABLE record_changes DROP COLUMN held")


def _make_one_history(connection: sa.Connection) -> None:
    """In older files a record's history, the words that changed it and its links stood
    in three tables.
    """
    ALL.create_all(connection, tables=[effects])
    last = _last_number(connection, "history")
    last = former_history.convert(connection, last)
    _note_last_number(connection, "effects", last)
    former_history.drop(connection)


def _drop_notes_of_deleted(connection: sa.Connection) -> None:
    """In older files some of the hashes of deleted messages' ids were made of a
    sentence's words alone, so that the sentence can be guessed; which ones is unknown.
    """
    connection.execute(sa.delete(meta).where(meta.c.key.startswith(DELETED_ID)))


def _last_number(connection: sa.Connection, table: str) -> int:
    """The greatest number that a table has ever given."""
    given = sa.text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    return connection.scalar(given, {"name": table}) or 0


def _note_last_number(connection: sa.Connection, table: str, last: int) -> None:
    """Let a table give only greater numbers than this one."""
    own = {"name": table, "last": last}
    connection.execute(sa.text("DELETE FROM sqlite_sequence WHERE name = :name"), own)
    connection.execute(
        sa.text("INSERT INTO sqlite_sequence VALUES (:name, :last)"), own
    )


def index_words(connection: sa.Connection) -> None:
    """Index all messages and records, of which none is indexed yet."""
    m = messages.c
    for session in connection.scalars(sa.select(sessions.c.n)).all():
        spoken = (
            sa.select(m.n, m.name, m.text)
            .where(m.session == session, SPOKEN)
            .order_by(m.n)
        )
        MESSAGE_WORDS.add(connection, words_of(map(tuple, connection.execute(spoken))))
    texts = connection.execute(sa.select(records.c.n, records.c.text))
    RECORD_WORDS.add(connection, {n: [text] for n, text in texts})


def add_column(
    connection: sa.Connection, table: str, name: str, declaration: str
) -> None:
    """Add a column to an older file; a new file's tables have all columns from the
    start.
    """
    if not _has_column(connection, table, name):
        connection.exec_driver_sql(
            f"ALTER TABLE {table} ADD COLUMN {name} {declaration}"
        )


def _has_column(connection: sa.Connection, table: str, name: str) -> bool:
    columns = sa.inspect(connection).get_columns(table)
    return name in {column["name"] for column in columns}


Steps = Sequence[Callable[[sa.Connection], None]]
MIGRATIONS: Steps = [
    _create_message_tables,
    _create_record_tables,
    _create_change_tables,
    _index_words_anew,
    _create_value_table,
    _create_removed_words,
    _drop_held_changes,
    _index_words_anew,  # of earlier messages their ends alone
    _make_one_history,
    _drop_notes_of_deleted,
]


def refuse_newer(connection: sa.Connection, steps: Steps) -> int:
    """The schema version of the file, unless a newer library wrote it; that of a new
    file is 0.
    """
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    if version > len(steps):
        raise SchemaTooNewError(
            f"The ledger has schema version {version}; this langmem-graph knows up to "
            f"{len(steps)}. Nothing was changed. Upgrade: pip install -U langmem-graph."
        )
    return version


def migrate(connection: sa.Connection, steps: Steps) -> None:
    """Bring the file up to date, in the caller's transaction."""
    for step in range(refuse_newer(connection, steps), len(steps)):
        steps[step](connection)
        connection.exec_driver_sql(f"PRAGMA user_version = {step + 1}")
