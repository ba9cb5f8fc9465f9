"""What people see of a memory in a debugger, and what they are told after a wrong call."""

import io
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from rich.console import Console

from langmem_graph.cli import import_and_read, printing
from langmem_graph.memory import Memory
from langmem_graph.settings import StorageSettings
from langmem_graph.storage.postgres_database import connect, place_of
from langmem_graph.storage.postgres_rooms import PostgresRooms
from tests.conftest import said


def test_a_memory_says_where_it_is(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        place = f"{str(tmp_path / 'm')!r}, engine='SQLite'"
        assert repr(memory) == f"Memory({place})"
        assert repr(memory.user("ana")) == f"UserMemory('ana', in {place})"
        shared = Memory(
            tmp_path / "memory", embeddings="hash", authorize=lambda *_: True
        )
        assert (
            repr(shared.shared("team", as_user=7))
            == "SharedMemory('team', as_user='7')"
        )
        shared.close()
    assert repr(memory) == f"Memory({place})"  # also after it was closed
    assert not list((tmp_path / "m").glob("users/*"))  # it makes nothing


def test_a_database_is_named_without_its_password() -> None:
    import sqlalchemy as sa

    rooms = PostgresRooms.__new__(PostgresRooms)
    rooms._engine = sa.create_engine("postgresql+psycopg://app:s3cret@db/memory")
    assert rooms.place == "'postgresql://db/memory', engine='PostgreSQL'"


@pytest.mark.parametrize("given", [
    "postgresql://app:s3cret@db:6432/memory", "host=db port=6432 dbname=memory password=s3cret"
])  # fmt: skip
def test_the_database_of_a_pool_is_named_too(given: str) -> None:
    engine = connect(ConnectionPool(given, open=False), StorageSettings())
    assert place_of(engine) == "db:6432/memory"


@pytest.mark.parametrize("name", ["add", "aadd", "recall", "flush", "search_records"])
def test_a_method_of_one_user_is_shown_where_it_is(name: str, tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        with pytest.raises(AttributeError, match=rf"memory\.user\('alice'\)\.{name}\("):
            getattr(memory, name)
        with pytest.raises(AttributeError) as caught:
            memory.nothing_like_it  # type: ignore[attr-defined]  # noqa: B018
        assert "user(" not in str(caught.value)
        assert not hasattr(memory, "add")
        assert not hasattr(memory, "_read")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_bar_is_drawn_on_a_terminal_alone(
    terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=80)
    monkeypatch.setattr(printing, "errors", console)
    moved: list[Any] = []
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        user = memory.user("ana")
        with import_and_read.embedding_bar(user, "embedding", 3, False) as advance_to:
            memory._services.on_embedded, inner = (
                moved.append,
                memory._services.on_embedded,
            )
            user.add([said("one"), said("two")], session_id="s")
            assert inner
            inner(2)
            advance_to(3)
    assert moved == [2]
    assert ("embedding" in written.getvalue()) is terminal
