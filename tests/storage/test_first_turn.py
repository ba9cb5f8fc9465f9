"""A user's first turn costs little: nothing is opened or compiled that is not needed."""

from pathlib import Path

from langmem_graph.memory import Memory
from langmem_graph.storage.sqlite_database import Database


def test_chroma_is_not_opened_while_it_has_no_vectors(tmp_path: Path) -> None:
    with Memory(tmp_path, embeddings="hash") as memory:
        ana = memory.user("ana")
        ana.add([{"role": "user", "content": "I live in Porto."}], session_id="s")
        assert "Porto" in ana.recall("Where do I live?").context
        assert not list(tmp_path.rglob("chroma.sqlite3"))
    assert list(tmp_path.rglob("chroma.sqlite3"))
    with Memory(tmp_path, embeddings="hash") as memory:
        assert "Porto" in memory.user("ana").recall("Where do I live?").context


def test_ledgers_share_their_compiled_statements(tmp_path: Path) -> None:
    one, other = (Database(tmp_path / name, busy_timeout=1) for name in ("a", "b"))
    assert one._engine.dialect is other._engine.dialect
    caches = [
        database._engine.get_execution_options()["compiled_cache"]
        for database in (one, other)
    ]
    assert caches[0] is caches[1]
    one.close()
    other.close()
