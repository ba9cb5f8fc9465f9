"""Directories that cannot be used, and ledgers of other versions."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from langmem_graph.errors import SchemaTooNewError, StorageError
from langmem_graph.memory import Memory
from langmem_graph.storage import tables_and_migrations
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
        if parent.stat().st_uid == 0 and parent != Path("/") and "pytest" in str(parent):
            parent.chmod(0o755)
    code = (
        "import os, sys; os.environ['HOME'] = '/nonexistent'\n"
        "from langmem_graph import Memory\n"
        "from langmem_graph.errors import StorageError\n"
        f"Memory({str(tmp_path / 'other')!r}, embeddings='hash').close()\n"  # imports all
        "os.setgid(65534); os.setuid(65534)\n"
        f"try: Memory({str(root)!r}, embeddings='hash')\n"
        "except StorageError as error: print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "refused:" in done.stdout
    assert "may write to" in done.stdout


def test_a_newer_ledger_is_refused_and_left_alone(reopen: Reopen) -> None:
    memory = reopen()
    memory.user("u").add(said("hello"), session_id="s")
    ledger = folder(memory, "u") / "ledger.db"
    memory.close()
    with sqlite3.connect(ledger) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    with pytest.raises(SchemaTooNewError, match="999"):
        reopen().user("u").search_conversation("hello")
    with pytest.raises(SchemaTooNewError, match="Upgrade"):
        reopen(read_only=True).user("u").search_conversation("hello")


def test_an_older_ledger_is_migrated_with_everything_in_it(
    reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    reopen().user("u").add(said("hello", id="1"), session_id="s")
    step = [lambda connection: connection.exec_driver_sql("ALTER TABLE messages ADD mood TEXT")]
    memory = reopen()
    ledger = folder(memory, "u") / "ledger.db"
    monkeypatch.setattr(
        tables_and_migrations, "MIGRATIONS", [*tables_and_migrations.MIGRATIONS, *step]
    )
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (
        len(tables_and_migrations.MIGRATIONS),
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
        steps = ["ALTER TABLE messages ADD mood TEXT", "ALTER TABLE nowhere ADD mood TEXT"]
        broken = [lambda c, s=s: c.exec_driver_sql(s) for s in steps]
        patch.setattr(
            tables_and_migrations, "MIGRATIONS", [*tables_and_migrations.MIGRATIONS, *broken]
        )
        with pytest.raises(StorageError, match="nowhere"):
            reopen().user("u").sessions()
    connection = sqlite3.connect(ledger)
    assert connection.execute("PRAGMA user_version").fetchone() == (
        len(tables_and_migrations.MIGRATIONS),
    )
    connection.close()
    assert reopen().user("u").search_conversation("hello")[0].message_id == "1"
