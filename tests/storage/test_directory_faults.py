"""Directories that cannot be used, and ledgers of other versions."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from langmem_graph.errors import SchemaTooNewError, StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import migrations
from langmem_graph.store import ChromaStore
from tests.conftest import said
from tests.support.files import folder

Reopen = Callable[..., Memory]


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot be used"):
        Memory(tmp_path / "file" / "memory", embeddings="hash")


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """As another user, since root may write anywhere."""
    if os.getuid() != 0:
        pytest.skip("needs root to become another user")
    root = tmp_path / "memory"
    root.mkdir(mode=0o755)
    for parent in (tmp_path, *tmp_path.parents):
        if (
            parent.stat().st_uid == 0
            and parent != Path("/")
            and "pytest" in str(parent)
        ):
            parent.chmod(0o755)
    code = (
        "import os, sys; os.environ['HOME'] = '/nonexistent'\n"
        "from langmem_graph import Memory\n"
        "from langmem_graph.errors import StorageError\n"
        # imports all
        f"Memory({str(tmp_path / 'other')!r}, embeddings='hash').close()\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"try: Memory({str(root)!r}, embeddings='hash')\n"
        "except StorageError as error: print('refused:', error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "refused:" in done.stdout
    assert "may write to" in done.stdout


def test_a_newer_ledger_is_refused_and_left_alone(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add(said("hello"), session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    memory.close()
    with sqlite3.connect(ledger) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    before = ledger.read_bytes()
    with pytest.raises(SchemaTooNewError, match="999"):
        reopen().user("u").search_conversation("hello")
    assert ledger.read_bytes() == before
    with pytest.raises(SchemaTooNewError, match="Upgrade"):
        reopen(read_only=True).user("u").search_conversation("hello")


@pytest.mark.parametrize("how", ["of another user", "newer"])
def test_a_ledger_that_is_refused_is_closed(reopen: Reopen, how: str) -> None:
    memory = reopen()
    memory.user("u").add(said("hello"), session_id="s")
    own = folder(memory, "u")
    other = folder(memory, "v")
    memory.close()
    if how == "newer":
        with closing(sqlite3.connect(own / "ledger.db")) as ledger:
            ledger.execute("PRAGMA user_version = 999")
    own.rename(other)
    # the error has all of its frames
    with pytest.raises(StorageError) as refused:
        reopen().user("v").add(said("hello"), session_id="s")
    links = Path("/proc/self/fd").iterdir()
    opened = [link for link in links if str(other) in os.path.realpath(link)]
    assert opened == [], refused.value


@pytest.mark.parametrize("read_only", [False, True])
def test_a_copied_folder_is_nobodys(
    reopen: Reopen, caplog: pytest.LogCaptureFixture, *, read_only: bool
) -> None:
    memory = reopen()
    memory.user("u").add(said("hello"), session_id="s")
    memory.close()
    shutil.copytree(folder(memory, "u"), folder(memory, "v"))
    again = reopen(read_only=read_only)
    assert [one.user_id for one in again.users()] == ["u"]
    assert folder(memory, "v").name in caplog.text
    with pytest.raises(StorageError, match="copied or renamed"):
        again.user("v").export()


def test_an_older_ledger_is_migrated_with_everything_in_it(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    reopen().user("u").add(said("hello", id="1"), session_id="s")
    step = [
        lambda connection: connection.exec_driver_sql(
            "ALTER TABLE messages ADD mood TEXT"
        )
    ]
    memory = reopen()
    ledger = folder(memory, "u") / "ledger.db"
    monkeypatch.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, *step])
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (
        len(migrations.MIGRATIONS),
    )
    assert connection.execute("SELECT mood FROM messages").fetchall() == [(None,)]
    connection.close()


def test_a_migration_that_fails_changes_nothing(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen()
    memory.user("u").add(said("hello", id="1"), session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    with monkeypatch.context() as patch:
        steps = [
            "ALTER TABLE messages ADD mood TEXT",
            "ALTER TABLE nowhere ADD mood TEXT",
        ]
        broken = [lambda c, s=s: c.exec_driver_sql(s) for s in steps]
        patch.setattr(migrations, "MIGRATIONS", [*migrations.MIGRATIONS, *broken])
        with pytest.raises(StorageError, match="nowhere"):
            reopen().user("u").sessions()
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (
        len(migrations.MIGRATIONS),
    )
    connection.close()
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"


_WRITER = """
import sys
import threading
from langmem_graph import Memory
with Memory(sys.argv[1], embeddings="hash") as memory:
    memory.user("u").add({"role": "user", "content": "mine", "id": "b"}, session_id="s")
"""


@pytest.mark.parametrize("beside", [False, pytest.param(True, marks=pytest.mark.long)])
def test_without_its_lock_file_a_memory_writes_no_more(
    reopen: Reopen, *, beside: bool
) -> None:
    memory = reopen()
    memory.user("u").add(said("hello", id="a"), session_id="s")
    (memory.path / "lock").unlink()
    if beside:
        subprocess.run([sys.executable, "-c", _WRITER, str(memory.path)], check=True)
    user, other = memory.user("u"), memory.user("other")
    for write in (
        lambda: user.add(said("lost", id="c"), session_id="s"),
        lambda: other.add(said("lost", id="c"), session_id="s"),
        lambda: user.forget(message="a"),
        user.erase,
        user.rebuild,
    ):
        with pytest.raises(StorageError, match="lock file"):
            write()
    assert user.search_conversation("hello")[0].message_id == "a"
    stored = [row["id"] for row in reopen().user("u").export()]
    assert stored == (["a", "b"] if beside else ["a"])
    assert not reopen().user("other").export()


def test_without_its_lock_file_a_store_writes_no_more(tmp_path: Path) -> None:
    with ChromaStore(tmp_path, embeddings="hash") as store:
        store.put(("a",), "k", {"text": "hello"})
        (tmp_path / "lock").unlink()
        with pytest.raises(StorageError, match="lock file"):
            store.put(("a",), "other", {"text": "lost"})
        assert store.get(("a",), "k") is not None
    with ChromaStore(tmp_path, embeddings="hash") as store:
        assert store.get(("a",), "other") is None


def test_a_memory_closed_in_another_thread_lets_go_of_its_lock(reopen: Reopen) -> None:
    memory = reopen()
    closing = threading.Thread(target=memory.close)
    closing.start()
    closing.join()
    assert reopen().user("u").sessions() == []
