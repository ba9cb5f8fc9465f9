"""What bringing a memory's tables up to date would do: tried, and then given up.

A ledger's file is copied into memory and the copy is brought up to date. In a database
it is done in a transaction that is taken back, while others wait.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import StaticPool

from langmem_graph.errors import LangMemGraphError, StorageError
from langmem_graph.storage import migrations
from langmem_graph.storage.tables import effects, records


@dataclass(frozen=True)
class Rehearsal:
    """What would be done."""

    place: str
    version: int
    """The version of the tables now."""
    records: int
    effects: int
    """What the history of these records would consist of."""
    problem: str | None = None
    """Why it would fail."""


def rehearse_directory(directory: Path) -> Iterator[Rehearsal]:
    """Try it with each ledger of a memory's directory; the files stay as they are."""
    for file in sorted(directory.glob("*/*/ledger.db")):
        place = str(file.parent)
        try:
            yield _rehearse_file(file, place)
        except LangMemGraphError as error:
            yield Rehearsal(place, -1, 0, 0, str(error))
        except (sqlite3.Error, SQLAlchemyError) as error:
            yield Rehearsal(place, -1, 0, 0, f"It cannot be read: {error}")


def _rehearse_file(file: Path, place: str) -> Rehearsal:
    copied = sqlite3.connect(":memory:", check_same_thread=False)
    with closing(
        sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    ) as db:
        db.backup(copied)
    engine = sa.create_engine("sqlite://", creator=lambda: copied, poolclass=StaticPool)
    try:
        with engine.begin() as connection:
            steps = migrations.MIGRATIONS
            version = migrations.refuse_newer(connection, steps)
            if version == 0:
                raise StorageError("It is no ledger.")
            migrations.migrate(connection, steps)
            return Rehearsal(place, version, *_counted(connection))
    finally:
        engine.dispose()


def _counted(connection: Connection) -> tuple[int, int]:
    """How many records there are, and how many effects upon them."""
    of_records, of_effects = (
        connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
        for table in (records, effects)
    )
    return of_records, of_effects
