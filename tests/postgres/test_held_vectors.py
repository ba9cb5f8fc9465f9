"""First searches of a user on PostgreSQL, and vectors that are read beside searches."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from langmem_graph.memory import Memory, UserMemory
from langmem_graph.schemas import MessageHit
from langmem_graph.settings import RankingSettings, Settings
from langmem_graph.storage import held_vectors
from langmem_graph.testing import HashEmbeddings
from tests.conftest import said

FEW = Settings(ranking=RankingSettings(dense_candidates=4))
NINE = [said(f"boat {n} is red", id=str(n)) for n in range(9)]


def _found(user: UserMemory) -> list[MessageHit]:
    return user.search_conversation("the red boat in the harbour", 20, explain=True)


def _unheld(user: UserMemory, patch: pytest.MonkeyPatch) -> list[MessageHit]:
    with patch.context() as unheld:
        unheld.setattr(
            "langmem_graph.retrieval.search_common.RoomSearch.held", lambda *_: None
        )
        return _found(user)


def _held(count: int) -> bool:
    """Whether so many vectors of the one room are held, at the latest in a while."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        places = list(held_vectors._RECENT.values())
        if [len(p.vectors.rows) for p in places if p.vectors] == [count]:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(params=[False, True], ids=["writer", "reader"])
def two(
    request: pytest.FixtureRequest, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[UserMemory, UserMemory]]:
    """One user in two processes' memories, where five vectors are many; the second only writes."""
    monkeypatch.setattr(held_vectors, "MANY", 5)
    held_vectors._RECENT.clear()
    with (
        Memory(
            database, embeddings="hash", settings=FEW, read_only=request.param
        ) as one,
        Memory(database, embeddings="hash", settings=FEW) as other,
    ):
        yield one.user("u"), other.user("u")


def test_many_vectors_are_read_beside_searches(
    two: tuple[UserMemory, UserMemory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever another process adds or forgets is found at once, before and after they are read."""
    user, other = two
    other.add(NINE, session_id="s")
    changes: list[tuple[Callable[[], object], int]] = [
        (lambda: None, 9),
        (lambda: other.add([said("a green boat in the harbour")], session_id="t"), 10),
        (lambda: other.forget(message="3"), 9),
        (lambda: other.rebuild(reembed=True), 9),
    ]
    for change, count in changes:
        change()
        first = _found(user)
        assert _held(count)
        assert first == _found(user) == _unheld(user, monkeypatch)
        assert len(first) == count


def test_a_memory_is_closed_while_vectors_are_read(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_vectors, "MANY", 5)
    reads, read = list[bool](), held_vectors._renewed

    def slowly(*words: Any) -> Any:
        time.sleep(0.5)
        reads.append(read(*words) is not None)

    monkeypatch.setattr(held_vectors, "_renewed", slowly)
    with Memory(database, embeddings="hash", settings=FEW) as memory:
        memory.user("u").add(NINE, session_id="s")
        assert len(_found(memory.user("u"))) == 9
    assert reads == [True]  # no connection is left behind


def test_a_room_with_nothing_due_is_opened_in_one_transaction(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("u").add(NINE, session_id="s")
    begun = list[str]()

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("BEGIN"):
            begun.append(statement)

    with Memory(database, embeddings="hash") as memory:
        engine = memory._services.directory._engine  # type: ignore[union-attr]
        sa.event.listen(engine, "before_cursor_execute", note)
        assert len(_found(memory.user("u"))) == 9
        assert len(begun) == 2  # of the opening, and of the search


def test_what_was_left_due_is_done_at_the_opening(database: str) -> None:
    class Broken(HashEmbeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            raise ConnectionError("no embedder")

    with Memory(database, embeddings=Broken()) as memory:
        assert len(memory.user("u").add(NINE, session_id="s").not_yet_embedded) == 9
    with Memory(database, embeddings="hash") as memory:
        _found(memory.user("u"))
        assert [user.to_embed for user in memory.users()] == [0]
