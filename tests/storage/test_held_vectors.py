"""Vectors that are held in memory between searches are those that are stored."""

import gc
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from langmem_graph.memory import Memory, UserMemory
from langmem_graph.retrieval.search_common import RoomSearch
from langmem_graph.schemas import MessageHit
from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from langmem_graph.storage import held_vectors
from langmem_graph.storage.held_vectors import HeldVectors, State, held
from langmem_graph.storage.reading import EVERYTHING
from tests.conftest import said

FEW = Settings(ranking=RankingSettings(dense_candidates=4))
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"half": True},
    {"half": 1},  # equal to True, but of another type: nothing passes
    {"third": {"$in": [0, 1]}},
    {"$or": [{"third": 2}, {"session_id": "1"}]},
    {"fifth": {"$exists": False}},
    {"fifth": 3},
]


def _found(user: UserMemory, where: dict[str, Any] | None = None) -> list[MessageHit]:
    return user.search_conversation(
        "the red boat in the harbour", 20, explain=True, where=where
    )


def _found_unheld(
    user: UserMemory, patch: pytest.MonkeyPatch, where: dict[str, Any] | None = None
) -> list[MessageHit]:
    with patch.context() as unheld:
        unheld.setattr(
            "langmem_graph.retrieval.search_common.RoomSearch.held", lambda *_: None
        )
        return _found(user, where)


@pytest.mark.parametrize("index_batch", [1, 512])
def test_changes_are_noticed_and_nothing_else_differs(
    reopen: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, index_batch: int
) -> None:
    settings = FEW.model_copy(
        update={"storage": StorageSettings(index_batch=index_batch)}
    )
    user = reopen(settings=settings).user("u")
    changes: list[Callable[[], object]] = [
        lambda: user.add(
            [said(f"boat {n} is red", id=str(n)) for n in range(9)], session_id="s"
        ),
        lambda: user.add(
            [said("a green boat leaves the harbour", id="new")], session_id="t"
        ),
        lambda: user.forget(message="3"),
        lambda: user.rebuild(reembed=True),
        lambda: (user.forget(message="5"), user.add([said("no boat")], session_id="t")),
    ]
    for change in changes:
        change()
        assert _found(user) == _found_unheld(user, monkeypatch) == _found(user)


def test_a_reader_beside_a_writer_holds_them_too(
    reopen: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notices whatever the writer does, also that the user was erased and came back."""
    user = reopen(settings=FEW).user("u")
    told = [
        said(f"boat {n} is red", id=str(n), metadata={"half": n % 2}) for n in range(9)
    ]
    user.add(told, session_id="s")
    place = user._services.directory.path  # type: ignore[union-attr]
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: user.add(
            [said("a green boat leaves the harbour", id="new")], session_id="t"
        ),
        lambda: user.forget(message="3"),
        lambda: user.rebuild(reembed=True),
        lambda: (user.forget(message="5"), user.add([said("no boat")], session_id="t")),
        lambda: (
            user.erase(),
            user.add([*told[:4], said("a red harbour")], session_id="s"),
        ),
        lambda: user.add([said(f"ship {n} is red") for n in range(4)], session_id="s"),
    ]
    with Memory(place, embeddings="hash", settings=FEW, read_only=True) as beside:
        reader = beside.user("u")
        for change in changes:
            change()
            for where in (None, {"half": 1}):
                found = _found(reader, where)
                assert (
                    found
                    == _found_unheld(reader, monkeypatch, where)
                    == _found(user, where)
                )
        with (
            beside._services.room("u") as room,
            room.database.read_transaction(EVERYTHING) as connection,
        ):
            search = RoomSearch.of(beside._services, room, EVERYTHING)
            vectors = search.held(connection, State.of(connection))
            assert vectors
            assert _items(vectors) == list(range(1, 10))


@pytest.mark.parametrize("beside", [0, 1 << 30])
def test_searches_with_and_without_them_agree(
    reopen: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch, beside: int
) -> None:
    """Under filters, too, and after whatever is added or forgotten between the searches."""
    monkeypatch.setattr(held_vectors, "BESIDE_BYTES", beside)
    monkeypatch.setattr(held_vectors, "FILTERS", 3)
    ranking, chance = (
        RankingSettings(dense_candidates=5, word_candidates=3),
        random.Random(beside),
    )
    user = reopen(settings=Settings(ranking=ranking)).user("u")
    words, there, tried = (
        "red boat harbour green the in fish of night".split(),
        list[int](),
        0,
    )
    for step in range(8):
        new = range(1_000 * step, 1_000 * step + chance.randint(1, 12))
        told = [
            {"half": n % 2 == 0, "third": n % 3} | ({"fifth": n % 5} if n % 5 else {})
            for n in new
        ]
        texts = [" ".join(chance.choices(words, k=4)) for _ in new]
        user.add(
            [
                said(text, id=str(n), metadata=one)
                for n, text, one in zip(new, texts, told, strict=True)
            ],
            session_id=str(step % 3),
        )
        there += new
        if step % 4 == 3:
            user.forget(message=str(there.pop(chance.randrange(len(there)))))
        for where in FILTERS:
            hits = _found(user, where)
            assert hits == _found_unheld(user, monkeypatch, where), (step, where)
            tried += bool(hits)
    assert tried > 35


def test_a_session_that_goes_on_under_another_name_is_noticed(
    reopen: Callable[..., Memory],
) -> None:
    user = reopen(settings=FEW).user("u")
    user.add([said(f"no boat {n}") for n in range(9)], session_id="s")
    talk = [
        said("The boat is red."),
        said("It is.", role="assistant"),
        said("And fast."),
    ]
    user.add(talk, session_id="old", whole_conversation=True)
    before = {name: _found(user, {"session_id": name}) for name in ("old", "new")}
    more = [*talk, said("I see.", role="assistant"), said("Is it?")]
    user.add(more, session_id="new", whole_conversation=True)
    after = {name: _found(user, {"session_id": name}) for name in ("old", "new")}
    assert {name: len(hits) for name, hits in before.items()} == {"old": 3, "new": 0}
    assert {name: len(hits) for name, hits in after.items()} == {"old": 0, "new": 5}


def test_an_earlier_transaction_sees_what_was_there(
    reopen: Callable[..., Memory],
) -> None:
    memory = reopen(settings=FEW)
    user = memory.user("u")
    user.add(
        [said(f"boat {n} is red", metadata={"half": n % 2}) for n in range(9)],
        session_id="s",
    )
    with memory._services.room("u") as room:
        database: Any = room.database
        with database.read_transaction(EVERYTHING) as earlier:
            before = held(database, earlier, State.of(earlier), 4)
            user.add([said("a green boat", metadata={"half": 1})], session_id="s")
            _found(user, {"half": 1})
            again = held(database, earlier, State.of(earlier), 4)
            assert again and again.word_counts(earlier, ["boat"]) == {"boat": 9}
        with database.read_transaction(EVERYTHING) as later:
            after = held(database, later, State.of(later), 4)
            assert after and after.word_counts(later, ["boat"]) == {"boat": 10}
    assert before
    assert _items(before) == _items(again) == list(range(1, 10))
    assert _items(after) == list(range(1, 11))
    assert np.array_equal(after.rows.matrix[:9], again.rows.matrix)


def test_vectors_made_anew_take_the_place_of_the_old(
    reopen: Callable[..., Memory],
) -> None:
    memory = reopen(settings=FEW)
    user = memory.user("u")
    user.add([said(f"boat {n} is red") for n in range(9)], session_id="s")
    _found(user)
    user.rebuild(reembed=True)
    _found(user)
    with (
        memory._services.room("u") as room,
        room.database.read_transaction(EVERYTHING) as connection,
    ):
        vectors = held(room.database, connection, State.of(connection), 4)
    assert vectors
    assert _items(vectors) == list(range(1, 10))


def _items(vectors: HeldVectors) -> list[int]:
    items: list[int] = vectors.rows.items.tolist()
    return items


def test_a_large_room_takes_the_place_of_none_in_use(
    reopen: Callable[..., Memory], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = reopen(settings=FEW)
    held_vectors._RECENT.clear()
    for name in "ab":
        memory.user(name).add(
            [said(f"boat {n} is red") for n in range(9)], session_id="s"
        )
    expected = _found(memory.user("a"))
    size = next(iter(held_vectors._RECENT.values())).size
    monkeypatch.setattr(held_vectors, "ALL_BYTES", size + 1)
    monkeypatch.setattr(held_vectors, "SMALL_BYTES", 0)
    texts = [hit.text for hit in _found(memory.user("b"))]
    assert texts == [hit.text for hit in expected]
    assert _sizes() == [size, 0]
    monkeypatch.setattr(held_vectors, "REFUSED_SECONDS", 0.0)
    monkeypatch.setattr(held_vectors, "SMALL_BYTES", size)
    # a small one does, and so does any where no other is in use
    held_vectors._RECENT.popitem()
    _found(memory.user("b"))
    assert _sizes() == [0, size]
    monkeypatch.setattr(held_vectors, "SMALL_BYTES", 0)
    monkeypatch.setattr(held_vectors, "IN_USE_SECONDS", 0.0)
    _found(memory.user("a"))
    assert _sizes() == [0, size]
    assert _found(memory.user("a")) == expected


def _sizes() -> list[int]:
    return [place.size for place in held_vectors._RECENT.values()]


def test_nothing_of_an_erased_user_is_held(reopen: Callable[..., Memory]) -> None:
    memory = reopen(settings=FEW)
    held_vectors._RECENT.clear()
    memory.user("u").add([said(f"boat {n} is red") for n in range(9)], session_id="s")
    _found(memory.user("u"))
    assert len(held_vectors._RECENT) == 1
    memory.user("u").erase()
    gc.collect()
    assert not held_vectors._RECENT
