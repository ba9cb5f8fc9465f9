"""Rooms through a real PgBouncer in transaction mode: all users share one connection."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from langmem_graph.memory import Memory
from langmem_graph.storage.postgres_connection import PREPARE_AFTER
from langmem_graph.storage.reading import EVERYTHING
from tests.conftest import said
from tests.postgres.test_rooms import rooms_of

program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
if program is None:
    pytest.skip("pgbouncer is not installed", allow_module_level=True)


@pytest.fixture
def bouncer(database: str) -> Iterator[str]:
    """The URL of the test's database behind a PgBouncer with a single connection to it."""
    place, _, sockets = database.partition("?host=")
    name = place.rpartition("/")[2]
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = f"""
            [databases]
            {name} = host={sockets}
            [pgbouncer]
            pool_mode = transaction
            default_pool_size = 1
            listen_addr =
            listen_port = 6432
            unix_socket_dir = {home}
            auth_type = trust
            auth_file = {home}/users
            logfile = {home}/log"""
        (home / "users").write_text('"postgres" ""\n')
        (home / "ini").write_text(
            "\n".join(line.strip() for line in settings.splitlines())
        )
        words = [str(program), str(home / "ini")]
        # it refuses to run as root; the server's user may reach the server
        if os.geteuid() == 0:
            shutil.chown(home, "embedded_postgres")
            words += ["--user", "embedded_postgres"]
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            yield _reached(
                f"postgresql://postgres@/{name}?host={home}&port=6432", process, home
            )
        finally:
            process.terminate()
            process.wait(20)


def _reached(url: str, process: "subprocess.Popen[bytes]", home: Path) -> str:
    for _ in range(200):
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return url
        except psycopg.OperationalError:
            time.sleep(0.05)
        if process.poll() is not None:
            break
    log = home / "log"
    raise RuntimeError(
        f"pgbouncer did not start: {log.read_text() if log.exists() else ''}"
    )


def test_the_server_keeps_plans_where_each_transaction_has_the_same_connection(
    bouncer: str, database: str
) -> None:
    for url, kept in ((bouncer, None), (database, PREPARE_AFTER)):
        with Memory(url, embeddings="hash") as memory:
            engine = rooms_of(memory, "ana").engine
            with engine.connect() as connection:
                plain = connection.connection.driver_connection
                assert plain is not None
                assert plain.prepare_threshold == kept


def test_two_users_take_turns_on_one_connection(bouncer: str, database: str) -> None:
    with (
        Memory(bouncer, embeddings="hash") as memory,
        Memory(database, embeddings="hash") as direct,
    ):
        ana, bob = memory.user("ana"), memory.user("bob")
        # more often than psycopg waits before it would prepare a statement
        for n in range(12):
            for own, name in ((ana, "ana"), (bob, "bob")):
                own.add(said(f"{name} saw heron{n}", id=f"m{n}"), session_id="s")
                assert [
                    hit.text for hit in own.search_conversation(f"heron{n}", 1)
                ] == [f"{name} saw heron{n}"]
                assert direct.user(name).export()[-1]["id"] == f"m{n}"
        assert "bob" not in ana.recall("heron3").context
        report = ana.forget(message="m3")
        assert (report.messages, report.traces_left) == (1, False)
        assert (len(ana.export()), len(bob.export())) == (11, 12)
        assert bob.erase().messages == 12
        assert ana.doctor(sample=0).ok
        _settings_have_ended(memory)


def _settings_have_ended(memory: Memory) -> None:
    """The shared connection has no room and no role, whoever had it before."""
    own = rooms_of(memory, "ana")
    with own.read_transaction(EVERYTHING) as connection:
        backend = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    asked = "SELECT pg_backend_pid(), current_user, coalesce(current_setting('app.room', true), '')"
    with own.engine.connect() as connection:
        assert tuple(connection.execute(sa.text(asked)).one()) == (
            backend,
            "postgres",
            "",
        )
