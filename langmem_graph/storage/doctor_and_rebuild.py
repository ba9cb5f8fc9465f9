"""`doctor` and `rebuild`: compares the vector index with the ledger, and builds it anew."""

import random

import numpy as np

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.reports import Health
from langmem_graph.storage import (
    full_text,
    message_queries,
    outbox_rows,
    tables_and_migrations,
    vector_rows,
)
from langmem_graph.storage.memory_services import Services
from langmem_graph.storage.message_queries import Counts
from langmem_graph.storage.tables_and_migrations import EMBED, INDEX, LAYERS
from langmem_graph.storage.user_room import Room

_SAME = 0.9999  # cosine from which two vectors count as the same text
_ENOUGH_REACH = 0.9  # Chroma's index is approximate: it misses a few vectors by design


def examine(services: Services, user_id: str, sample: int) -> Health:
    """Compare ledger and index, asking Chroma for `sample` stored vectors (0: for all)."""
    with services.known_room(user_id) as room:
        if room is None:
            return _without_ledger(user_id)
        with room.database.read_transaction() as connection:
            held = message_queries.counts(connection)
            waiting = vector_rows.count_waiting_vectors(connection)
            embedder = tables_and_migrations.get_meta(connection, "embedder")
            problems = room.database.damage(connection) + message_queries.damage(connection)
        indexed, sampled, reachable = _ask_index(room, held, waiting, sample, problems)
    problems += _shortfalls(held, waiting, indexed, sampled, reachable, room.read_only)
    found = {"indexed": indexed, "reachable": reachable, "sampled": sampled}
    found |= {f"waiting_to_{task}": held.waiting.get(task, 0) for task in (EMBED, INDEX)}
    return Health(**vars(held), **found, embedder=embedder, problems=problems)


def _without_ledger(user_id: str) -> Health:
    problems = [f"Nothing is stored of user {user_id!r}."]
    nothing = dict.fromkeys(Health.model_fields, 0) | {"embedder": None, "problems": problems}
    return Health.model_validate(nothing)


def _ask_index(
    room: Room, held: Counts, waiting: int, sample: int, problems: list[str]
) -> tuple[int, int, int]:
    """How many vectors Chroma holds, how many it was asked for, and how many of them it found."""
    if room.read_only or held.vectors == waiting:
        return (-1 if room.read_only else 0), 0, 0
    with room.database.read_transaction() as connection:
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
    with room.database.read_transaction() as connection:
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
    held: Counts, waiting: int, indexed: int, sampled: int, reachable: int, read_only: bool
) -> list[str]:
    problems = []
    if due := held.waiting.get(EMBED, 0):
        problems.append(
            f"{due} messages or records have no vector yet; they are found by their words only. "
            "The next add or opening embeds them."
        )
    expected = held.vectors - waiting
    if not read_only and 0 <= indexed < expected:
        problems.append(f"Chroma holds {indexed} of {expected} vectors: run rebuild.")
    if sampled and reachable < _ENOUGH_REACH * sampled:
        problems.append(f"Chroma finds only {reachable} of {sampled} vectors: run rebuild.")
    return problems


def rebuild(services: Services, user_id: str, reembed: bool) -> Health:
    """Start an empty index and fill it from the ledger; `reembed` embeds everything anew first."""
    with services.known_room(user_id) as room:
        if room is None:
            return _without_ledger(user_id)
        if reembed:
            services.embedder.embed(["Does the embedder work?"])  # before anything is dropped
        else:
            room.check_embedder(services.embedder.name)
        with room.working:
            room.renew_index()
            with room.database.write_transaction() as connection:
                if reembed:
                    outbox_rows.embed_everything_again(connection)
                else:
                    outbox_rows.index_everything_again(connection)
        done = services.drain(room)
        with room.database.write_transaction() as connection:
            full_text.optimize_words(connection)
    health = examine(services, user_id, sample=200)
    return health.model_copy(update={"problems": [*health.problems, *done.warnings]})
