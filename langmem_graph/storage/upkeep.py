"""Upkeep: `doctor` and `rebuild` of the vector index, and the move to another engine.

The index is compared with the ledger, and built anew. A user is copied row by row in
one transaction and compared before it is committed, so that a move that was stopped is
begun again where it stopped; what is in the source stays as it is.
"""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa

from langmem_graph.errors import IndexUnavailableError, StorageError
from langmem_graph.reports import Health
from langmem_graph.rooms import described
from langmem_graph.storage import (
    full_text,
    message_queries,
    migrations,
    outbox_rows,
    tables,
    vector_rows,
)
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.message_queries import Counts
from langmem_graph.storage.outbox_worker import DueWork
from langmem_graph.storage.reading import EVERYTHING, Reading
from langmem_graph.storage.tables import (
    ALL_TABLES,
    EMBED,
    INDEX,
    LAYERS,
    get_meta,
    meta,
    set_meta,
)
from langmem_graph.storage.user_room import Room

_SAME = 0.9999  # cosine from which two vectors count as the same text
_ENOUGH_REACH = 0.9  # Chroma's index is approximate: it misses a few vectors by design
# facts about the index, which each engine has its own of
OF_PLACE = ("index", "chroma")
AT_ONCE = 1_000


def examine(services: Services, user_id: str, sample: int) -> Health:
    """Compare ledger and index, asking Chroma for `sample` stored vectors (0:
    for all).
    """
    with services.known_room(user_id) as room:
        if room is None:
            return _without_ledger(user_id)
        with room.database.read_transaction(EVERYTHING) as connection:
            held = message_queries.counts(connection)
            waiting = vector_rows.count_waiting_vectors(connection)
            embedder = tables.get_meta(connection, "embedder")
            problems = room.database.damage(connection) + message_queries.damage(
                connection
            )
        indexed, sampled, reachable = _ask_index(room, held, waiting, sample, problems)
    problems += _shortfalls(held, waiting, indexed, sampled, reachable, room.read_only)
    found = {"indexed": indexed, "reachable": reachable, "sampled": sampled}
    found |= {
        f"waiting_to_{task}": held.waiting.get(task, 0) for task in (EMBED, INDEX)
    }
    return Health(**vars(held), **found, embedder=embedder, problems=problems)


def _without_ledger(user_id: str) -> Health:
    problems = [f"Nothing is stored of user {user_id!r}."]
    nothing = dict.fromkeys(Health.model_fields, 0) | {
        "embedder": None,
        "problems": problems,
    }
    return Health.model_validate(nothing)


def _ask_index(
    room: Room, held: Counts, waiting: int, sample: int, problems: list[str]
) -> tuple[int, int, int]:
    """How many vectors Chroma holds, how many it was asked for, and how many of them it
    found.
    """
    if room.read_only or held.vectors == waiting:
        return (-1 if room.read_only else 0), 0, 0
    with room.database.read_transaction(EVERYTHING) as connection:
        by_layer = vector_rows.indexed_vector_ids(connection)
    try:
        indexed = sum(room.index.count(layer) for layer, ids in by_layer.items() if ids)
        sampled, reachable = _reach(room, by_layer, sample) if indexed else (0, 0)
    except IndexUnavailableError as error:
        problems.append(str(error))
        return -1, 0, 0
    return indexed, sampled, reachable


def _reach(room: Room, by_layer: dict[str, list[int]], sample: int) -> tuple[int, int]:
    """How many vectors Chroma was asked for, and how many it found.

    A damaged index may count a vector that no query finds any more.
    """
    ids = [(layer, n) for layer in LAYERS for n in by_layer[layer]]
    chosen = ids if sample == 0 else random.sample(ids, min(sample, len(ids)))
    answers = []
    with room.database.read_transaction(EVERYTHING) as connection:
        for layer in LAYERS:
            numbers = [n for chosen_layer, n in chosen if chosen_layer == layer]
            rows = vector_rows.vectors_by_id(connection, numbers)
            for vector in rows.matrix:
                found = room.index.query(layer, vector, 10, connection)
                nearest = vector_rows.vectors_by_id(connection, found)
                cosines = nearest.matrix @ vector if len(nearest) else np.zeros(1)
                answers.append(float(np.max(cosines)) >= _SAME)
    return len(answers), sum(answers)


def _shortfalls(
    held: Counts,
    waiting: int,
    indexed: int,
    sampled: int,
    reachable: int,
    read_only: bool,
) -> list[str]:
    problems = []
    if due := held.waiting.get(EMBED, 0):
        problems.append(
            f"{due} messages or records have no vector yet; they are found by their "
            "words only. "
            "The next add or opening embeds them."
        )
    expected = held.vectors - waiting
    if not read_only and 0 <= indexed < expected:
        problems.append(f"Chroma holds {indexed} of {expected} vectors: run rebuild.")
    if sampled and reachable < _ENOUGH_REACH * sampled:
        problems.append(
            f"Chroma finds only {reachable} of {sampled} vectors: run rebuild."
        )
    return problems


def rebuild(services: Services, user_id: str, reembed: bool) -> Health:
    """Start an empty index and fill it from the ledger; `reembed` embeds everything
    anew first.
    """
    with services.known_room(user_id) as room:
        if room is None:
            return _without_ledger(user_id)
        if reembed:
            # before anything is dropped
            services.embedder.embed(["Does the embedder work?"])
        else:
            room.check_embedder(services.embedder.name)
        with room.working:
            # due before the index is emptied, so that a killed process loses nothing;
            # and again, as another one may have done that work meanwhile
            _make_due(room, reembed)
            room.renew_index()
            _make_due(room, reembed)
        done = services.drain(room)
        with room.database.write_transaction() as connection:
            full_text.optimize_words(connection)
    health = examine(services, user_id, sample=200)
    return health.model_copy(update={"problems": [*health.problems, *done.warnings]})


def _make_due(room: Room, reembed: bool) -> None:
    with room.database.write_transaction() as connection:
        if reembed:
            outbox_rows.embed_everything_again(connection)
        else:
            outbox_rows.index_everything_again(connection)


def move_user(source: Services, target: Services, user_id: str) -> int | None:
    """Copy one user's ledger; returns the number of rows, or None where it was copied
    before.

    Raises:
        StorageError: the target holds another memory of this user, or a row differs
            afterwards.
    """
    with (
        source.directory.room(user_id) as old,
        target.directory.room(user_id, create=True) as new,
        old.database.read_transaction(EVERYTHING) as reading,
    ):
        ledger_id = str(get_meta(reading, "ledger_id"))
        with new.database.write_transaction() as writing:
            if get_meta(writing, "moved_from") == ledger_id:
                return None
            copied = _copy(reading, writing, user_id)
            set_meta(writing, "moved_from", ledger_id)
            last = old.database.last_numbers(reading)
            new.database.note_last_numbers(writing, last)
            outbox_rows.index_everything_again(writing)
        DueWork(new, target.embedder, target.settings).index_all()
        return copied


def _copy(reading: Reading, writing: Reading, user_id: str) -> int:
    """Copy all rows; the target's ledger must be empty, but for the facts about
    itself.
    """
    for table in ALL_TABLES:
        if table is not meta and writing.scalar(
            sa.select(sa.exists().select_from(table))
        ):
            raise StorageError(
                f"The target holds a memory of {described(user_id)} already. Erase it "
                "there "
                "first, or move into another directory or database."
            )
    copied = 0
    for table in ALL_TABLES:
        for rows in _portions(reading, table):
            _insert(writing, table, rows)
            copied += len(rows)
        _compare(reading, writing, table)
    migrations.index_words(writing)
    return copied


def _insert(writing: Reading, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if table is meta:
        for row in rows:
            set_meta(writing, row["key"], row["value"])
    elif rows:
        writing.execute(sa.insert(table), rows)


def _compare(reading: Reading, writing: Reading, table: sa.Table) -> None:
    there = _portions(writing, table)
    if any(rows != next(there, None) for rows in _portions(reading, table)):
        raise StorageError(
            f"Rows of the table {table.name} differ after copying; nothing is kept."
        )


def _portions(connection: Reading, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in the order of their keys."""
    query = sa.select(table).order_by(*table.primary_key.columns)
    if table is meta:
        query = query.where(meta.c.key.not_in((*OF_PLACE, "ledger_id", "moved_from")))
    for rows in connection.execute(query).mappings().partitions(AT_ONCE):
        yield [dict(row) for row in rows]
