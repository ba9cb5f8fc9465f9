"""Vectors that are held in memory between searches are those that are stored."""

import gc
from collections.abc import Callable

import pytest

from langmem_graph.memory import Memory, UserMemory
from langmem_graph.schemas import MessageHit
from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from langmem_graph.storage import held_vectors
from tests.conftest import said


def _found(user: UserMemory) -> list[MessageHit]:
    return user.search_conversation("the red boat in the harbour", 20, explain=True)


@pytest.mark.parametrize("index_batch", [1, 512])
def test_changes_are_noticed_and_nothing_else_differs(
    reopen: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, index_batch: int
) -> None:
    settings = Settings(
        ranking=RankingSettings(dense_candidates=4),
        storage=StorageSettings(index_batch=index_batch),
    )
    user = reopen(settings=settings).user("u")
    changes: list[Callable[[], object]] = [
        lambda: user.add([said(f"boat {n} is red", id=str(n)) for n in range(9)], session_id="s"),
        lambda: user.add([said("a green boat leaves the harbour", id="new")], session_id="t"),
        lambda: user.forget(message="3"),
        lambda: (user.forget(message="5"), user.add([said("no boat")], session_id="t")),
    ]
    for change in changes:
        change()
        held = _found(user)
        with monkeypatch.context() as patch:
            patch.setitem(held_vectors.MOST_BYTES, "sqlite", 0)
            held_vectors._RECENT.clear()
            assert held == _found(user)
        assert held == _found(user)


def test_nothing_of_an_erased_user_is_held(reopen: Callable[..., Memory]) -> None:
    memory = reopen(settings=Settings(ranking=RankingSettings(dense_candidates=4)))
    held_vectors._RECENT.clear()
    memory.user("u").add([said(f"boat {n} is red") for n in range(9)], session_id="s")
    _found(memory.user("u"))
    assert len(held_vectors._RECENT) == 1
    memory.user("u").erase()
    gc.collect()
    assert not held_vectors._RECENT
