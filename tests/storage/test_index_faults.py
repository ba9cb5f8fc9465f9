"""A vector index that is lost, destroyed or filled: the ledger rebuilds it."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from chromadb.errors import InternalError

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage import chroma_index, directory_lock, vector_rows
from langmem_graph.storage.chroma_index import ChromaServer, VectorIndex
from langmem_graph.storage.tables import set_meta
from langmem_graph.store.chroma_store import ChromaStore
from langmem_graph.testing import HashEmbeddings
from langmem_graph.view import own_view
from tests.conftest import TroubledEmbeddings, said
from tests.support.files import folder
from tests.support.loopback import loopback_alone

Reopen = Callable[..., Memory]


def test_a_deleted_index_is_rebuilt_without_embedding(
    reopen: Reopen, troubled: TroubledEmbeddings
) -> None:
    memory = reopen(embeddings=troubled)
    memory.user("u").add(
        [said(f"text {n}", id=str(n)) for n in range(40)], session_id="s"
    )
    room = folder(memory, "u")
    memory.close()
    (index,) = room.glob("chroma-*")
    shutil.rmtree(index)
    calls = troubled.calls
    health = reopen(embeddings=troubled).user("u").doctor(sample=0)
    assert (health.indexed, health.sampled, health.problems) == (40, 40, [])
    assert troubled.calls == calls


def test_a_whole_index_is_not_taken_for_an_incomplete_one(
    reopen: Reopen, caplog: pytest.LogCaptureFixture
) -> None:
    reopen().user("u").add(
        [said(f"text {n}", id=str(n)) for n in range(40)], session_id="s"
    )
    health = reopen().user("u").doctor(sample=0)
    assert (health.indexed, health.waiting_to_index) == (40, 0)
    assert "will be rebuilt" not in caplog.text


def test_a_destroyed_index_degrades_and_rebuild_mends_it(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add(
        [said(f"text number {n}", id=str(n)) for n in range(40)], session_id="s"
    )
    room = folder(memory, "u")
    memory.close()
    for file in room.glob("chroma-*/**/*"):
        if file.is_file():
            file.write_bytes(b"garbage" * 100)
    user = reopen().user("u")
    recall = user.recall("text number 7")
    assert recall.report.status == "degraded"
    assert recall.evidence[0].message_id == "7"
    report = user.add(said("added meanwhile", id="new"), session_id="s")
    assert report.stored == ["new"]
    assert not user.doctor().ok
    health = user.rebuild()
    assert (health.problems, health.indexed) == ([], 41)
    assert user.recall("text number 7").report.status == "ok"


def test_another_index_than_ours_is_said_and_the_vectors_stay_due(
    tmp_path: Path,
) -> None:
    limits = Settings(storage=StorageSettings(index_batch=1))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        user = memory.user("u")
        user.add(said("first"), session_id="s")
        with (
            memory._services.room("u") as room,
            room.database.write_transaction() as connection,
        ):
            set_meta(connection, "index", "http://another/")
        report = user.add(said("second", id="2"), session_id="s")
        assert any("another Chroma" in warning for warning in report.warnings)
        assert (
            memory._services.read(own_view("u"), vector_rows.count_waiting_vectors, 0)
            == 1
        )


def test_full_batches_reach_chroma_while_adding(tmp_path: Path) -> None:
    limits = Settings(storage=StorageSettings(index_batch=16))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        user = memory.user("u")
        user.add([said(f"text {n}", id=str(n)) for n in range(50)], session_id="s")
        health = user.doctor(sample=0)
        assert (health.indexed, health.waiting_to_index, health.problems) == (50, 0, [])


def test_a_chroma_that_cannot_be_imported_degrades(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is where a thread goes on after the main thread's end: Chroma's import starts some."""
    limits = Settings(storage=StorageSettings(index_batch=2))
    with Memory(tmp_path / "m", embeddings="hash", settings=limits) as memory:
        user = memory.user("u")
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "chromadb.errors", None)
            report = user.add(
                [said(f"text {n}", id=str(n)) for n in range(3)], session_id="s"
            )
        assert len(report.stored) == 3
        assert any("Chroma" in warning for warning in report.warnings)
        user.add(said("text 3", id="3"), session_id="s")
        assert user.doctor().waiting_to_index == 0


@pytest.mark.parametrize("written", [
    b"NAME=Jos\xe9\n",
    b"CHROMA_PRODUCT_TELEMETRY_IMPL=no_module.Posthog\n",
    b"CHROMA_SERVER_HEADERS=[\"X-Chroma-Token: s3cret\"]\n",
])  # fmt: skip
def test_a_file_env_of_the_working_directory_changes_no_index(
    written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_bytes(written)
    monkeypatch.chdir(tmp_path)
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        user = memory.user("u")
        user.add(said("I like tea", id="1"), session_id="s")
        health = user.rebuild()
    assert (health.problems, health.indexed) == ([], 1)


@pytest.mark.parametrize("place", [".env", "the environment"])
@pytest.mark.parametrize(("name", "value"), [
    ("CHROMA_SERVER_HEADERS", '["X-Chroma-Token: s3cret"]'),
    ("CHROMA_SERVER_HOST", "ana:s3cret@chroma.example.org"),
])  # fmt: skip
def test_settings_of_chroma_are_not_quoted(
    place: str, name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if place == ".env":
        (tmp_path / ".env").write_text(f"{name}={value}\n")
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(IndexUnavailableError) as error:
        chroma_index.connect("http://127.0.0.1:9")
    assert "s3cret" not in "".join(traceback.format_exception(error.value))
    is_refused = place != ".env" and name == "CHROMA_SERVER_HEADERS"
    assert ("chroma_server_headers" in str(error.value)) == is_refused


def test_an_import_that_reads_settings_quotes_none(tmp_path: Path) -> None:
    """Chroma reads `.env` as it is imported, which nothing can prevent."""
    (tmp_path / ".env").write_text('CHROMA_SERVER_HEADERS=["Token: s3cret"]\n')
    code = (
        "from langmem_graph import Memory\n"
        "with Memory('m', embeddings='hash') as memory:\n"
        "    memory.user('u').add([('user', 'I like tea')], session_id='s')\n"
        "    print(memory.user('u').rebuild().problems)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "s3cret" not in done.stdout + done.stderr
    assert "chroma_server_headers: Input should be" in done.stdout
    assert ".env" in done.stdout


@pytest.mark.stress
def test_more_vectors_than_one_chroma_batch_takes(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings=HashEmbeddings(8)) as memory:
        user = memory.user("u")
        user.add([said(f"text {n}", id=str(n)) for n in range(6_000)], session_id="s")
        assert user.rebuild().indexed == 6_000


class _Server:
    """A Chroma client whose only collection fails a number of times before it answers."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.name, self.configuration_json = "messages-n", {"hnsw": {"space": "cosine"}}

    def get_or_create_collection(self, name: str, **given: object) -> "_Server":
        return self

    def count(self) -> int:
        self.failures -= 1
        if self.failures >= 0:
            raise InternalError(
                "Error creating hnsw segment reader: Nothing found on disk"
            )
        return 7

    def delete(self, ids: list[str]) -> None:
        self.count()


def test_a_read_is_repeated_while_a_server_writes_its_first_file() -> None:
    index = VectorIndex("n", server=ChromaServer(cast(Any, _Server(failures=2))))
    assert index.count("messages") == 7


def test_a_server_that_keeps_failing_and_a_failing_write_are_reported() -> None:
    with pytest.raises(IndexUnavailableError, match="Nothing found on disk"):
        VectorIndex("n", server=ChromaServer(cast(Any, _Server(failures=9)))).count(
            "messages"
        )
    with pytest.raises(IndexUnavailableError, match="Nothing found on disk"):
        VectorIndex("n", server=ChromaServer(cast(Any, _Server(failures=1)))).delete(
            "messages", [1]
        )


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server that accepts and never answers."""
    monkeypatch.setattr(chroma_index, "SERVER_SECONDS", 0.5)
    with loopback_alone(), socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.enable_socket  # loopback only
@pytest.mark.parametrize("open_one", [Memory, ChromaStore])
def test_a_server_that_does_not_answer_is_left_alone_for_a_while(
    tmp_path: Path, silent: str, monkeypatch: pytest.MonkeyPatch, open_one: Any
) -> None:
    asked, connect = list[str](), chroma_index.connect

    def noting(chroma: str) -> Any:
        asked.append(chroma)
        return connect(chroma)

    monkeypatch.setattr(chroma_index, "connect", noting)
    settings = Settings(storage=StorageSettings(index_batch=1))
    with open_one(
        tmp_path / "m", embeddings="hash", chroma=silent, settings=settings
    ) as opened:
        for n in range(3):
            if isinstance(opened, Memory):
                report = opened.user("u").add(said(f"tea {n}"), session_id="s")
                assert "Chroma" in report.warnings[0]
                assert opened.user("u").recall("tea").evidence
            else:
                opened.put(("n",), f"{n}", {"text": "tea"})
                assert opened.search(("n",), query="tea")
        assert len(asked) == 1
        is_memory = isinstance(opened, Memory)
        directory = opened._services.directory if is_memory else opened._directory
        server = directory.server
        server._rests_until = time.monotonic()
        with pytest.raises(IndexUnavailableError):
            server.client()
        assert len(asked) == 2


@pytest.mark.enable_socket  # nothing listens there
@pytest.mark.parametrize("open_one", [Memory, ChromaStore])
def test_a_process_that_keeps_the_index_is_waited_for_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    open_one: Any,
) -> None:
    monkeypatch.setattr(directory_lock, "TURN_SECONDS", 1.0, raising=False)
    settings = Settings(storage=StorageSettings(index_batch=1, busy_timeout_seconds=3))
    where = {"embeddings": "hash", "chroma": "http://127.0.0.1:9"}

    def adding(opened: Any, text: str) -> float:
        begun = time.monotonic()
        if isinstance(opened, Memory):
            report = opened.user("u").add(said(text), session_id="s")
            assert len(report.warnings) == 1
        else:
            opened.put(("n",), text, {"text": text})
        return time.monotonic() - begun

    with loopback_alone(), open_one(tmp_path, settings=settings, **where) as opened:
        adding(opened, "tea")
        caplog.clear()
        (ledger,) = tmp_path.rglob("ledger.db")
        with ledger.with_name("index.lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            waits = [adding(opened, text) for text in ("milk", "rice")]
        assert 1 <= waits[0] < 2
        assert waits[1] < 1
        assert caplog.text.count("See whether that process still runs") == 2
        adding(opened, "salt")
        assert "Could not connect to a Chroma server" in caplog.text


def test_a_server_that_falls_silent_is_left_alone() -> None:
    class Silent(_Server):
        def count(self) -> int:
            self.failures += 1
            raise httpx.ReadTimeout("timed out") from TimeoutError()

    client = Silent(failures=0)
    server = ChromaServer(cast(Any, client))
    for text in ("timed out", "left alone for"):
        with pytest.raises(IndexUnavailableError, match=text):
            VectorIndex("n", server=server).count("messages")
    assert client.failures == 1
