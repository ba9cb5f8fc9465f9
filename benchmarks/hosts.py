"""Many users on one PostgreSQL server, beside LangGraph's own store with pgvector. No model.

Run from the repository root, on a database that holds nothing yet:
`python -m benchmarks.hosts --database postgresql://USER@HOST/NAME --users 20 --messages 1000`

Both embed with the same cheap embedder, write in calls of the same size, and are then asked the
same questions, one at a time, each of another user. The store keeps vectors alone, in an HNSW index
over all users; memory also indexes words, in exact tables of each user.
"""

import asyncio
import sys
from collections.abc import Sequence
from itertools import chain, islice
from time import perf_counter
from typing import Any

import numpy as np
from langgraph.store.base import PutOp
from langgraph.store.postgres import AsyncPostgresStore

from benchmarks import chatter, common
from benchmarks.chatter import SIZE, CheapEmbeddings
from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.storage.postgres_schema import prepare

K = 10
CALL = 200
"""Messages per call."""
Talks = list[tuple[str, list[dict[str, Any]]]]


def main() -> int:
    """Both systems on the same server, one report."""
    made = common.parser(__doc__)
    made.add_argument("--database", required=True, help="URL of an empty PostgreSQL database")
    made.add_argument("--users", type=int, default=20)
    made.add_argument("--messages", type=int, default=1_000, help="of each user")
    made.add_argument("--queries", type=int, default=100)
    options = made.parse_args()
    chat = chatter.make_chat()
    asked = chatter.queries(chat, options.queries)
    told = _calls(chat, options.users, options.messages)
    embeddings = CheapEmbeddings(chat)
    rows = [
        ["langmem-graph", *_ours(options.database, embeddings, told, asked)],
        ["AsyncPostgresStore", *asyncio.run(_store(options.database, embeddings, told, asked))],
    ]
    size = f"{options.users:,} users × {options.messages:,} messages"
    header = [size, "added per second", "search, ms: median", "95th percentile"]
    common.save(options.output, "hosts.md", common.table(header, rows))
    return 0


def _calls(chat: chatter.Chat, users: int, messages: int) -> Talks:
    """What each user says, in calls; users take turns."""
    every = chain.from_iterable(chatter.sessions(chat, users * messages))
    calls = [
        (f"user-{user}", list(islice(every, min(CALL, messages - start))))
        for start in range(0, messages, CALL)
        for user in range(users)
    ]
    return [(user, call) for user, call in calls if call]


def _ours(
    url: str, embeddings: CheapEmbeddings, told: Talks, asked: Sequence[str]
) -> tuple[str, str, str]:
    prepare(url)
    with Memory(url, embeddings=embeddings) as memory, common.progress() as bar:
        if memory.users():
            raise InvalidInputError("Memories are in this database already: name an empty one.")
        start = perf_counter()
        for number, (user, call) in enumerate(bar.track(told, description="langmem-graph")):
            memory.user(user).add(call, session_id=f"s{number}", at="2024-05-01T12:00:00Z")
        seconds = perf_counter() - start
        took = []
        for user, query in _questions(told, asked):
            start = perf_counter()
            memory.user(user).search_conversation(query, K)
            took.append(perf_counter() - start)
    return _figures(told, seconds, took)


async def _store(
    url: str, embeddings: CheapEmbeddings, told: Talks, asked: Sequence[str]
) -> tuple[str, str, str]:
    index: Any = {"dims": SIZE, "embed": embeddings, "fields": ["content"]}
    async with AsyncPostgresStore.from_conn_string(url, index=index) as store:
        await store.setup()
        start = perf_counter()
        with common.progress() as bar:
            for number, (user, call) in enumerate(bar.track(told, description="the store")):
                await store.abatch(
                    PutOp(("memories", user), f"{number}-{place}", message)
                    for place, message in enumerate(call)
                )
        seconds = perf_counter() - start
        took = []
        for user, query in _questions(told, asked):
            start = perf_counter()
            await store.asearch(("memories", user), query=query, limit=K)
            took.append(perf_counter() - start)
    return _figures(told, seconds, took)


def _questions(told: Talks, asked: Sequence[str]) -> list[tuple[str, str]]:
    users = list(dict.fromkeys(user for user, _ in told))
    return [(users[n % len(users)], query) for n, query in enumerate(asked)]


def _figures(told: Talks, seconds: float, took: Sequence[float]) -> tuple[str, str, str]:
    middle, high = np.percentile(np.array(took) * 1_000, [50, 95])
    count = sum(len(call) for _, call in told)
    return f"{count / seconds:,.0f}", f"{middle:.1f}", f"{high:.1f}"


if __name__ == "__main__":
    sys.exit(main())
