"""Sync and async: every public method has its twin, with the same signature and the same answer."""

import asyncio
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from pydantic import BaseModel

import langmem_graph
from langmem_graph.errors import ReadOnlyError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.operation import action_of, is_operation
from langmem_graph.runtime import at_once, either
from langmem_graph.storage import records_by_hand
from tests.conftest import said

NOT_TWINNED = {"user", "shared", "as_retriever", "flush_soon"}  # wait for nothing


def _public(cls: type) -> set[str]:
    return {
        name
        for name, member in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def _parameters(method: Any) -> list[inspect.Parameter]:
    """Without `self`."""
    return list(inspect.signature(method).parameters.values())[1:]


@pytest.mark.parametrize("cls", [Memory, UserMemory])
def test_every_method_has_a_twin_with_the_same_signature(cls: type) -> None:
    names = _public(cls)
    sync = {
        n for n in names if not (n.startswith("a") and n[1:] in names)
    } - NOT_TWINNED
    assert sync
    for name in sync:
        twin = getattr(cls, f"a{name}")
        assert inspect.iscoroutinefunction(twin)
        assert _parameters(twin) == _parameters(getattr(cls, name)), name
        assert twin.__doc__


NO_OPERATIONS = {"user", "shared", "as_retriever", "close", "aclose"}
"""They read and write nothing, or close."""


@pytest.mark.parametrize("cls", [Memory, UserMemory])
def test_every_public_method_is_an_operation(cls: type) -> None:
    names = _public(cls) - NO_OPERATIONS
    assert {name for name in names if not is_operation(getattr(cls, name))} == set()


def test_what_writes_is_refused_in_a_memory_open_for_reading(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        memory.user("ana").add(said("I own a boat."), session_id="s")
    with Memory(tmp_path / "m", embeddings="hash", read_only=True) as memory:
        ana = memory.user("ana")
        names = [
            n for n in _public(UserMemory) if action_of(getattr(ana, n)) == "write"
        ]
        assert {"add", "aadd", "erase", "flush", "aflush", "flush_soon"} <= set(names)
        for name in names:
            required = [
                one.name
                for one in _parameters(getattr(UserMemory, name))
                if one.default is inspect.Parameter.empty
            ]
            with pytest.raises(
                ReadOnlyError, match="needs a memory opened for writing"
            ):
                made = getattr(ana, name)(**dict.fromkeys(required, "x"))
                asyncio.run(made) if inspect.iscoroutine(made) else None
        assert ana.search_conversation("boat")


VARYING = {
    "milliseconds",
    "bytes",
    "change",
    "at",
    "created_at",
    "updated_at",
    "said_at",
    "valid_from",
    "oldest_due",
}


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    plain = value.model_dump() if hasattr(value, "model_dump") else value
    if isinstance(plain, dict):
        plain = {k: _without_times(v) for k, v in plain.items() if k not in VARYING}
    return plain


_TALK = [
    said(f"message number {n} of the garden", id=str(n), at="2024-01-01")
    for n in range(9)
]
_DRY = {"text": "The garden is dry.", "source_message_ids": ["1"], "record_id": "r1"}
_WET = {**_DRY, "text": "The garden is wet.", "record_id": "r2", "supersedes": ["r1"]}
_CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("add", (_TALK,), {"session_id": "s"}),
    ("add", (_TALK,), {"session_id": "s"}),
    ("search_conversation", ("number 3",), {"k": 4, "explain": True}),
    ("search_conversation", ("garden",), {"by": "session"}),
    ("recall", ("garden number 5",), {"k": 3}),
    ("get_conversation", (["1", "nope", "2"],), {}),
    (
        "add_records",
        (
            {
                "text": "The garden is dry.",
                "source_message_ids": ["1"],
                "record_id": "r1",
            },
        ),
        {},
    ),
    (
        "add_records",
        (
            {
                "text": "The garden is wet.",
                "source_message_ids": ["2"],
                "record_id": "r2",
                "supersedes": ["r1"],
            },
        ),
        {},
    ),
    ("search_records", ("garden",), {"k": 3, "explain": True}),
    ("search_records", ("garden",), {"as_of": "2024-01-01"}),
    ("get_records", (["r1", "nope", "r2"],), {}),
    ("history", ("r2",), {}),
    ("changes", ("r1",), {}),
    ("undo", ("r2",), {}),
    ("sessions", (), {}),
    ("conversation", ("s",), {"start": 2, "limit": 3}),
    ("records", (), {"limit": 1}),
    ("made_of", (["1", "nope", "2"],), {}),
    ("neighbours", ("r1",), {}),
    ("schedule", ("2024-01-01", "2024-02-01"), {}),
    ("compare", ("2024-01-01", "2024-02-01"), {}),
    ("records_of", (BaseModel,), {}),
    ("hide", ("r1",), {}),
    ("unhide", ("r1",), {}),
    ("forget_preview", (), {"message": "1"}),
    ("export", (), {}),
    ("correct", ("r1", "The garden is damp."), {}),
    ("changes", ("r1",), {}),
    ("undo", (), {"message": "2"}),
    ("calls", (), {"since": "2024-01-01", "limit": 5}),
    ("usage", (), {}),
    ("remember", ("My locker code is 4711.",), {}),
    ("export_records", (), {}),
    ("flush_forecast", (), {}),
    ("flush", (), {}),
    ("drain", (1.0,), {}),
    ("files", (), {}),
    ("forget", (), {"message": "3"}),
    ("keep_days", (), {"messages": 30_000}),
    ("expire", (), {}),
    ("doctor", (), {"sample": 0}),
    ("rebuild", (), {}),
    ("overview", (), {}),
    ("erase", (), {}),
]


async def test_twins_give_the_same_answers_and_never_block_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {"token_hex": lambda _: "0"}  # the ids of what is written by hand
    monkeypatch.setattr(records_by_hand, "secrets", SimpleNamespace(**drawn))
    with Memory(tmp_path / "sync", embeddings="hash") as memory:
        user = memory.user("u")
        expected = [
            getattr(user, name)(*args, **options) for name, args, options in _CALLS
        ]
    async with Memory(tmp_path / "async", embeddings="hash") as memory:
        user = memory.user("u")
        with blockbuster_ctx():
            found = [
                await getattr(user, f"a{name}")(*args, **options)
                for name, args, options in _CALLS
            ]
    names = _public(UserMemory)
    sync = {
        n for n in names if not (n.startswith("a") and n[1:] in names)
    } - NOT_TWINNED
    assert {name for name, _, _ in _CALLS} == sync - {
        "read_file",
        "ground",
    }  # their own tests: they need a model
    assert _without_times(found) == _without_times(expected)


async def test_many_tasks_at_once(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m", embeddings="hash") as memory:

        async def work(n: int) -> None:
            user = memory.user(n % 5)
            await user.aadd(said(f"hello {n}", id=str(n)), session_id="s")
            assert (await user.asearch_conversation(f"hello {n}", k=1))[
                0
            ].message_id == str(n)

        await asyncio.gather(*map(work, range(50)))
        assert [len(await memory.user(n).aexport()) for n in range(5)] == [10] * 5


def test_every_public_name_is_found_where_it_is_looked_for() -> None:
    for name in langmem_graph.__all__:
        assert getattr(langmem_graph, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Memories'"):
        langmem_graph.Memories  # noqa: B018


async def test_work_that_is_written_once_calls_the_method_or_its_twin() -> None:
    def method(word: str) -> str:
        return f"{word} here"

    async def twin(word: str) -> str:
        await asyncio.sleep(0)
        return f"{word} awaited"

    async def work(blocking: bool) -> list[str]:
        return [
            await either(blocking, method, twin)("a"),
            await either(blocking, method)("b"),
        ]

    assert at_once(work(True)) == ["a here", "b here"]
    assert await work(False) == ["a awaited", "b here"]
    with pytest.raises(RuntimeError, match="waits"):
        at_once(work(False))
