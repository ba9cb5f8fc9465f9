"""The benchmarks that measure memory on a database run."""

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import hosts
from benchmarks.chatter import CheapEmbeddings, make_chat
from benchmarks.data.items import Session
from benchmarks.systems.catalogue import Workshop
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.conftest import said


def test_many_users_beside_the_stock_store(
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = ["--users", "3", "--told", "2", "--messages", "30", "--queries", "3"]
    words = ["hosts", "--database", empty, "--output", str(tmp_path), *sizes]
    monkeypatch.setattr(sys, "argv", words)
    assert hosts.main() == 0
    shown = capsys.readouterr().out
    assert "3 users × 30 messages" in shown
    assert "langmem-graph" in shown
    assert "AsyncPostgresStore" in shown
    with Memory(empty, embeddings=CheapEmbeddings(make_chat())) as memory:
        names = [user.user_id for user in memory.users()]
        assert names == ["user-0", "user-1", "user-2"]
        told, other, copy = (
            memory.user(name).search_conversation("the garden") for name in names
        )
        assert told == copy != other


def test_memories_of_one_run_lie_apart_in_the_database(
    database: str, tmp_path: Path
) -> None:
    def told(folder: Path, *texts: str) -> set[Any]:
        memory = Workshop(folder, HashEmbeddings(), database=database).memory("plain")
        talk = [said(text, id=text) for text in texts]
        memory.add(Session("s", talk))
        held = {row["content"] for row in memory.user.export()}
        memory.close()
        return held

    assert told(tmp_path / "one", "bees") == {"bees"}
    assert told(tmp_path / "two", "boats") == {"boats"}
    assert told(tmp_path / "one", "birds") == {"bees", "birds"}  # it goes on
    (tmp_path / "one" / "plain").rmdir()
    assert told(tmp_path / "one", "birds") == {"birds"}  # it was forgotten
