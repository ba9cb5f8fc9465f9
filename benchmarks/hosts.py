"""Many users on one PostgreSQL server, beside LangGraph's own store with pgvector. No
model.

Run from the repository root, on a database that holds nothing yet:
`python -m benchmarks.hosts --database postgresql://USER@HOST/NAME --users 20 --messages
1000`

Both embed with the same cheap embedder, write in calls of the same size, and are then
asked the same questions by a process that has not seen these users yet, one at a time,
each of another user; then all of them again. The store keeps vectors alone, in an HNSW
index over all users, which is built when all rows are there; memory also indexes words,
in exact tables of each user.

`--told` makes more users possible: so many are added, the others are copies of these,
made by the server. What is searched, and the size of all tables, is the same as if all
had been added.
"""

import asyncio
import sys
import uuid
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from time import perf_counter
from typing import Any

import numpy as np
import psycopg
import sqlalchemy as sa
from langgraph.store.base import PutOp
from langgraph.store.postgres import AsyncPostgresStore

from benchmarks import chatter, common
from benchmarks.chatter import SIZE, CheapEmbeddings
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings
from langmem_graph.storage.postgres_database import PostgresDatabase, connect, room_of
from langmem_graph.storage.postgres_schema import ROOM_TABLES, prepare
from langmem_graph.storage.tables import note_owner, set_meta

K = 10
CALL = 200
"""Messages per call."""
Row = list[str]


def main() -> int:
    """Both systems on the same server, one report."""
    made = common.parser(__doc__)
    made.add_argument(
        "--database", required=True, help="URL of an empty PostgreSQL database"
    )
    made.add_argument("--users", type=int, default=20)
    made.add_argument("--messages", type=int, default=1_000, help="of each user")
    made.add_argument(
        "--told", type=int, help="users that are added; the others are copies"
    )
    made.add_argument("--writers", type=int, default=1, help="processes that add")
    made.add_argument("--queries", type=int, default=100)
    options = made.parse_args()
    rows = [["langmem-graph", *_ours(options)]]
    rows += [["AsyncPostgresStore", *asyncio.run(_store(options))]]
    size = f"{options.users:,} users × {options.messages:,} messages"
    header = [size, "added per second", "first search, ms: median", "95th percentile"]
    header += ["again: median", "95th percentile"]
    common.save(options.output, "hosts.md", common.table(header, rows))
    return 0


def _calls(chat: chatter.Chat, user: int, messages: int) -> list[list[dict[str, Any]]]:
    """What a user says, in calls; the same at each time."""
    own = replace(chat, random=np.random.default_rng(user))
    return list(chatter.sessions(own, messages, length=CALL))


def _ours(options: Namespace) -> Row:
    prepare(options.database)
    told = min(options.told or options.users, options.users)
    with Memory(options.database) as memory:
        if memory.users():
            raise InvalidInputError(
                "Memories are in this database already: name an empty one."
            )
    start, count = perf_counter(), options.writers
    shares = [range(n, told, count) for n in range(count)]
    add = partial(_add, options.database, options.messages)
    if count == 1:
        add(shares[0])
    else:
        with ProcessPoolExecutor(count, get_context("spawn")) as processes:
            list(processes.map(add, shares))
    seconds = perf_counter() - start
    _copy(options.database, told, options.users)
    embeddings = CheapEmbeddings(chatter.make_chat())
    with Memory(options.database, embeddings=embeddings) as memory:
        took = [_timed(memory, user, query) for user, query in _questions(options)]
    return _figures(told * options.messages / seconds, took)


def _add(url: str, messages: int, users: range) -> None:
    """In a process of its own: add these users' messages."""
    chat = chatter.make_chat()
    with (
        Memory(url, embeddings=CheapEmbeddings(chat)) as memory,
        common.progress() as bar,
    ):
        for user in bar.track(users, description="langmem-graph"):
            for number, call in enumerate(_calls(chat, user, messages)):
                at = "2024-05-01T12:00:00Z"
                memory.user(_name(user)).add(call, session_id=f"s{number}", at=at)


def _copy(url: str, told: int, users: int) -> None:
    """Give the other users the rows of those that were added."""
    settings = Settings().storage
    engine = connect(url, settings)
    try:
        with common.progress() as bar:
            for user in bar.track(range(told, users), description="copying"):
                source = room_of(_name(user % told))
                room = PostgresDatabase(engine, room_of(_name(user)), settings)
                with room.write_transaction() as connection:
                    _copy_rows(connection, room.room, source)
                    set_meta(connection, "ledger_id", uuid.uuid4().hex)
                    note_owner(connection, _name(user))
        with psycopg.connect(url, autocommit=True) as connection:
            # as the server does by itself, in time
            connection.execute("VACUUM ANALYZE")
    finally:
        engine.dispose()


def _copy_rows(connection: sa.Connection, target: uuid.UUID, source: uuid.UUID) -> None:
    seen = sa.text("SELECT set_config('app.rooms', :rooms, true)")
    connection.execute(seen, {"rooms": f"{target},{source}"})
    for table in ROOM_TABLES:
        columns = [column for column in table.columns if column.name != "room"]
        rows = sa.select(sa.literal(target), *columns).where(table.c.room == source)
        connection.execute(sa.insert(table).from_select([table.c.room, *columns], rows))


def _timed(memory: Memory, user: int, query: str) -> float:
    start = perf_counter()
    memory.user(_name(user)).search_conversation(query, K)
    return perf_counter() - start


async def _store(options: Namespace) -> Row:
    chat = chatter.make_chat()
    index: Any = {"dims": SIZE, "embed": CheapEmbeddings(chat), "fields": ["content"]}
    async with AsyncPostgresStore.from_conn_string(
        options.database, index=index
    ) as store:
        await store.setup()
        start = perf_counter()
        async with await psycopg.AsyncConnection.connect(
            options.database, autocommit=True
        ) as own:
            later = await _without_index(own)
            with common.progress() as bar:
                for user in bar.track(range(options.users), description="the store"):
                    await _put(store, user, _calls(chat, user, options.messages))
            # else it is built on disk
            await own.execute("SET maintenance_work_mem = '1GB'")
            await own.execute(later)
            seconds = perf_counter() - start
            await own.execute("VACUUM ANALYZE store, store_vectors")
        took = []
        for user, query in _questions(options):
            start = perf_counter()
            await store.asearch(("memories", _name(user)), query=query, limit=K)
            took.append(perf_counter() - start)
    return _figures(options.users * options.messages / seconds, took)


async def _put(store: Any, user: int, calls: Sequence[list[dict[str, Any]]]) -> None:
    for number, call in enumerate(calls):
        await store.abatch(
            PutOp(("memories", _name(user)), f"{number}-{place}", message)
            for place, message in enumerate(call)
        )


async def _without_index(connection: psycopg.AsyncConnection[Any]) -> str:
    """Drop the store's index of vectors; returns the command that makes it again."""
    found = await connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes"
        " WHERE tablename = 'store_vectors' AND indexdef LIKE '% USING hnsw %'"
    )
    name, command = await found.fetchone() or ("", "")
    await connection.execute(f'DROP INDEX "{name}"')
    return str(command)


def _name(user: int) -> str:
    return f"user-{user}"


def _questions(options: Namespace) -> list[tuple[int, str]]:
    """Each of another user, as far as there are so many, and all of them again."""
    asked = chatter.queries(chatter.make_chat(), min(options.queries, options.users))
    step = options.users // len(asked)
    return [(n * step, query) for n, query in enumerate(asked)] * 2


def _figures(rate: float, took: Sequence[float]) -> Row:
    figures = [f"{rate:,.0f}"]
    for part in (took[: len(took) // 2], took[len(took) // 2 :]):
        middle, high = np.percentile(np.array(part) * 1_000, [50, 95])
        figures += [f"{middle:.1f}", f"{high:.1f}"]
    return figures


if __name__ == "__main__":
    sys.exit(main())
