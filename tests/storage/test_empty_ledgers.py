"""A ledger that is empty or missing, as a power cut can leave it, is no new user's."""

import errno
import multiprocessing
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from langmem_graph import ChromaStore, Memory
from langmem_graph.cli.commands import app
from langmem_graph.errors import StorageError
from langmem_graph.storage import sqlite_database
from langmem_graph.storage.reading import EVERYTHING
from langmem_graph.testing import HashEmbeddings
from tests.conftest import said
from tests.support.settings import nested


def opened(path: Path, **options: Any) -> Memory:
    options = {"embeddings": HashEmbeddings(), "authorize": lambda *_: True, **options}
    return Memory(path, **options)


def emptied(path: Path) -> Path:
    (ledger,) = path.glob("**/ledger.db")
    for beside in ledger.parent.glob("ledger.db-*"):
        beside.unlink()
    ledger.write_bytes(b"")
    return ledger


USES: list[Callable[[Any], Any]] = [
    lambda room: room.add(said("another"), session_id="s"),
    lambda room: room.export(),
    lambda room: room.recall("text"),
    lambda room: room.doctor(sample=0),
]


def shortened(size: int) -> Callable[[Path], Path]:
    def shorten(path: Path) -> Path:
        ledger = emptied(path)
        ledger.write_bytes(b"S" * size)
        return ledger

    return shorten


def deleted(path: Path) -> Path:
    ledger = emptied(path)
    ledger.unlink()
    return ledger


def piped(path: Path) -> Path:
    ledger = deleted(path)
    os.mkfifo(ledger)
    return ledger


def replaced_by(statements: str) -> Callable[[Path], Path]:
    def replace(path: Path) -> Path:
        ledger = deleted(path)
        with closing(sqlite3.connect(ledger)) as other:
            other.executescript(statements)
        return ledger

    return replace


replaced = replaced_by("CREATE TABLE accounts (name)")


begun = replaced_by(
    "CREATE TABLE t (x); DROP TABLE t;"
    f"PRAGMA application_id = {sqlite_database._APPLICATION_ID}"
)
"""A ledger that was made without tables beside the index of the former."""


def with_a_file_as_index(path: Path) -> Path:
    ledger = deleted(path)
    for index in ledger.parent.glob("chroma-*"):
        shutil.rmtree(index)
        index.touch()
    return ledger


LOSSES = {
    **{f"{size} bytes": shortened(size) for size in (0, 1, 15, 16, 50, 99)},
    "is missing": deleted,
    "is no file": piped,
    "index or log": with_a_file_as_index,
    "another program": replaced,
    "another program's: what it held": replaced_by("CREATE VIEW v AS SELECT 1"),
    "is another program": replaced_by("CREATE TABLE meta (key TEXT, value TEXT)"),
    "is another program's": replaced_by(
        "CREATE TABLE meta (key, value, ledger_id); INSERT INTO meta VALUES (1, 2, 3)"
    ),
    "no tables": replaced_by("CREATE TABLE t (x); DROP TABLE t"),
    "has no tables": begun,
}
INDEXED = nested(storage__index_batch=1)
"""Chroma gets each vector at once."""


@pytest.mark.parametrize("use", USES, ids=["add", "export", "recall", "doctor"])
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_lost_is_named_with_the_way_out(
    loss: str, use: Callable[[Any], Any], tmp_path: Path, *, read_only: bool
) -> None:
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        memory.user("a").add(said("text"), session_id="s")
    ledger = LOSSES[loss](tmp_path / "m")
    if read_only and use is USES[0]:
        pytest.skip("nothing is added to what is open for reading")
    before = ledger.is_file() and ledger.read_bytes()
    with (
        opened(tmp_path / "m", settings=INDEXED, read_only=read_only) as memory,
        pytest.raises(StorageError, match=f"{loss}.*Put a copy of it there, or erase"),
    ):
        use(memory.user("a"))
    assert (ledger.is_file() and ledger.read_bytes()) == before


def command_after(loss: str, path: Path, *words: str) -> Any:
    """What a command for a user says whose ledger was lost."""
    with opened(path, settings=INDEXED) as memory:
        memory.user("a").add(said("text"), session_id="s")
    LOSSES[loss](path)
    return CliRunner().invoke(app, [*words, "-u", "a", "-m", str(path)])


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_lost_is_erased(loss: str, tmp_path: Path) -> None:
    result = command_after(loss, tmp_path / "m", "erase", "--yes")
    assert result.exit_code == 0, result.output
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        memory.user("a").add(said("another"), session_id="s")
        assert [row["content"] for row in memory.user("a").export()] == ["another"]


def test_a_log_without_its_ledger_is_not_taken_for_a_new_ones(tmp_path: Path) -> None:
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("text"), session_id="s")
    ledger = deleted(tmp_path / "m")
    ledger.with_name("ledger.db-wal").write_bytes(b"a log")
    with opened(tmp_path / "m") as memory, pytest.raises(StorageError, match="missing"):
        memory.user("a").add(said("another"), session_id="s")


@pytest.mark.parametrize("loss", [deleted, piped, replaced])
def test_a_lost_ledger_is_named_in_the_log_and_keeps_no_others_back(
    loss: Callable[[Path], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        memory.user("a").add(said("text"), session_id="s")
    loss(tmp_path / "m")
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        memory.user("b").add(said("text"), session_id="s")
        assert [one.user_id for one in memory.users()] == ["b"]
        assert memory.usage().calls == 0
        assert memory.expire() == []
    assert "ledger.db" in caplog.text


def test_a_folder_that_a_killed_process_made_is_a_new_users(tmp_path: Path) -> None:
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        memory.user("a").add(said("text"), session_id="s")
    folder = deleted(tmp_path / "m").parent
    (index,) = folder.glob("chroma-*")
    shutil.rmtree(index)
    index.mkdir()
    with opened(tmp_path / "m", settings=INDEXED) as memory:
        assert memory.user("a").export() == []
        memory.user("a").add(said("another"), session_id="s")
        assert [row["content"] for row in memory.user("a").export()] == ["another"]


@pytest.mark.parametrize("use", USES, ids=["add", "export", "recall", "doctor"])
@pytest.mark.parametrize("room", ["user", "shared"])
@pytest.mark.parametrize("read_only", [False, True])
def test_it_is_said_and_nothing_is_written(
    use: Callable[[Any], Any], room: str, read_only: bool, tmp_path: Path
) -> None:
    def of(memory: Memory) -> Any:
        is_user = room == "user"
        return memory.user("a") if is_user else memory.shared("team", as_user="a")

    with opened(tmp_path / "m") as memory:
        of(memory).add(said("text"), session_id="s")
    ledger = emptied(tmp_path / "m")
    if read_only and use is USES[0]:
        pytest.skip("nothing is added to what is open for reading")
    with (
        opened(tmp_path / "m", read_only=read_only) as memory,
        pytest.raises(StorageError, match=r"ledger\.db"),
    ):
        use(of(memory))
    assert ledger.stat().st_size == 0


def test_one_that_was_never_indexed(tmp_path: Path) -> None:
    class Silent(HashEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise ConnectionError("down")

    with opened(tmp_path / "m", embeddings=Silent()) as memory:
        memory.user("a").add(said("text"), session_id="s")
    emptied(tmp_path / "m")
    with opened(tmp_path / "m") as memory, pytest.raises(StorageError, match="0 bytes"):
        memory.user("a").add(said("another"), session_id="s")


def test_erasing_it_begins_anew_and_others_go_on(tmp_path: Path) -> None:
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("text"), session_id="s")
    emptied(tmp_path / "m")
    with opened(tmp_path / "m") as memory:
        memory.user("b").add(said("text"), session_id="s")
        memory.user("a").erase()
        memory.user("a").add(said("another"), session_id="s")
        assert [row["content"] for row in memory.user("a").export()] == ["another"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_a_file_system_without_hard_links(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, "no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("text"), session_id="s")
        assert len(memory.user("a").export()) == 1
    assert not list(tmp_path.glob("**/new-*"))


def test_a_store_says_so_too(tmp_path: Path) -> None:
    with ChromaStore(tmp_path / "m", embeddings=HashEmbeddings()) as store:
        store.put(("a",), "key", {"text": "value"})
    emptied(tmp_path / "m")
    with pytest.raises(StorageError, match=r"0 bytes.*delete the folder"):
        ChromaStore(tmp_path / "m", embeddings=HashEmbeddings())


def _make(file: Path, start: Any, answers: Any) -> None:
    from langmem_graph.storage.sqlite_database import Database

    start.wait(20)
    database = Database(file, busy_timeout=20)
    answers.put(
        database.read(lambda c: c.exec_driver_sql("SELECT 1").scalar(), EVERYTHING)
    )
    database.close()


def test_processes_that_make_one_ledger_at_once_make_one(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, answers = spawn.Event(), spawn.Queue()
    file = tmp_path / "ledger.db"
    processes = [
        spawn.Process(target=_make, args=(file, start, answers)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    start.set()
    assert [answers.get(timeout=60) for _ in processes] == [1] * 4
    for process in processes:
        process.join(60)
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.db"]


def test_a_reader_meets_no_ledger_that_is_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, read = os.link, list[Any]()

    def link_and_read(*files: Any) -> None:
        link(*files)
        with opened(tmp_path / "m", read_only=True) as reader:
            read.append(reader.user("a").export())

    monkeypatch.setattr(os, "link", link_and_read)
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("text"), session_id="s")
        assert read == [[]]
        assert len(memory.user("a").export()) == 1


def test_a_new_ledger_that_was_not_finished_is_a_new_one(tmp_path: Path) -> None:
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("text"), session_id="s")
    ledger = begun(tmp_path / "m")
    for index in ledger.parent.glob("chroma-*"):
        shutil.rmtree(index)
    with opened(tmp_path / "m") as memory:
        memory.user("a").add(said("another"), session_id="s")
        assert [row["content"] for row in memory.user("a").export()] == ["another"]


@pytest.mark.parametrize("loss", LOSSES)
def test_doctor_names_what_is_lost(loss: str, tmp_path: Path) -> None:
    result = command_after(loss, tmp_path / "m", "doctor", "--embeddings", "hash")
    assert result.exit_code == 1
    assert "ledger.db" in f"{result.exception}"
