"""Tables that another session holds while they are brought up to date."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from langmem_graph.errors import StorageError
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import postgres_schema
from tests.postgres.test_where import FORMER

READING = "SELECT count(*) FROM langmem_graph.history"
MIGRATING = f"SELECT pg_advisory_xact_lock({postgres_schema._MIGRATING})"


def made_older(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for command in FORMER:
            connection.execute(command)
        connection.execute("UPDATE langmem_graph.version SET version = 5")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("held", [READING, MIGRATING])
@pytest.mark.parametrize("work", [postgres_schema.prepare, postgres_schema.rehearse])
def test_a_session_that_holds_a_table_is_named_and_not_waited_for_long(
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[str], Any],
    held: str,
) -> None:
    made_older(database)
    settings = Settings(storage=StorageSettings(busy_timeout_seconds=1))
    monkeypatch.setattr(postgres_schema, "Settings", lambda: settings)
    with psycopg.connect(database, application_name="backups") as reader:
        reader.execute(held)
        named = rf"session {reader.info.backend_pid} of backups .* for 1 s"
        with pytest.raises(StorageError, match=named):
            work(database)
        assert reader.execute("SELECT version FROM langmem_graph.version").fetchone()
    assert work(database)


@pytest.mark.enable_socket  # the killed process has its own
@pytest.mark.timeout(60)
def test_a_killed_process_leaves_no_lock(database: str) -> None:
    made_older(database)
    command = [sys.executable, "-m", "langmem_graph", "migrate", database]
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'langmem-graph'"
    )
    with (
        psycopg.connect(database) as reader,
        psycopg.connect(database, autocommit=True) as admin,
    ):

        def sessions(condition: str = "true") -> int:
            row = admin.execute(f"{others} AND {condition}").fetchone()
            return int(row[0]) if row else 0

        reader.execute(READING)
        with subprocess.Popen(command) as process:
            while not sessions("wait_event_type = 'Lock'"):
                time.sleep(0.1)
            process.kill()
        killed = time.monotonic()
        while sessions():
            assert time.monotonic() - killed < 15
            time.sleep(0.1)
    assert postgres_schema.prepare(database) == postgres_schema.VERSION
