"""Items of a store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from langgraph.store.base import PutOp

from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore

NUTS = {"text": "Alice eats no nuts."}
# every vector goes to Chroma at once
EAGER = Settings(storage=StorageSettings(index_batch=1))


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


def emptied(store: ChromaStore) -> ChromaStore:
    every = store.search((), limit=10_000)
    store.batch([PutOp(one.namespace, one.key, None) for one in every])
    return store


def vectors_in(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "items" / "ledger.db")) as ledger:
        return int(ledger.execute("SELECT count(*) FROM vectors").fetchone()[0])
