"""A disk that is full or gives an error, at each call of the system's that we make."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import langmem_graph
from langmem_graph import ChromaStore, Memory
from langmem_graph.errors import LangMemGraphError
from langmem_graph.testing import HashEmbeddings
from tests.conftest import said
from tests.support.settings import nested

PACKAGE = str(Path(langmem_graph.__file__).parent)
SETTINGS = nested(storage__index_batch=1)
BETWEEN = ("pathlib", "shutil", "tempfile", __name__.rpartition(".")[2])
"""What stands between the package and the system."""


def calls_of_a_memory(path: Path) -> Iterator[Callable[[], Any]]:
    with Memory(path, embeddings=HashEmbeddings(), settings=SETTINGS) as memory:
        user = memory.user("a")
        yield lambda: user.add([said("one", id="1"), said("two")], session_id="s")
        yield lambda: user.recall("one")
        yield lambda: user.forget(message="1")
        yield memory.users
        yield user.rebuild
        yield user.erase


def calls_of_a_store(path: Path) -> Iterator[Callable[[], Any]]:
    with ChromaStore(path, embeddings=HashEmbeddings(), settings=SETTINGS) as store:
        yield lambda: store.put(("a",), "key", {"text": "one"})
        yield lambda: store.search(("a",), query="one")
        yield store.rebuild
        yield lambda: store.delete(("a",), "key")


def is_ours() -> bool:
    """Whether the package has asked for the call of the system's that runs now."""
    frame = sys._getframe(2)
    while frame.f_back and any(one in frame.f_code.co_filename for one in BETWEEN):
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(PACKAGE)


def failing(name: str, place: int, patch: pytest.MonkeyPatch) -> list[int]:
    """Let our so-manyth call of this function fail; counts them."""
    function, calls = getattr(os, name), [0]

    def fail(*given: Any, **options: Any) -> Any:
        calls[0] += is_ours()
        if calls[0] == place:
            calls[0] += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return function(*given, **options)

    patch.setattr(os, name, fail)
    return calls


LONG = [pytest.param(name, marks=pytest.mark.stress) for name in ("stat", "open")]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("calls", [calls_of_a_memory, calls_of_a_store])
@pytest.mark.parametrize("name", ["mkdir", "scandir", "rmdir", "unlink", *LONG])
def test_every_error_is_ours_and_what_comes_later_works(
    name: str, calls: Callable[[Path], Iterator[Callable[[], Any]]], tmp_path: Path
) -> None:
    for place in count(1):
        path = tmp_path / f"{place}"
        with pytest.MonkeyPatch.context() as patch:
            made = failing(name, place, patch)
            try:
                for call in calls(path):
                    attempt(call)
            except LangMemGraphError:  # at the opening
                pass
        with Memory(path, embeddings=HashEmbeddings(), settings=SETTINGS) as memory:
            memory.user("a").add(said("after it", id="9"), session_id="s")
            assert memory.user("a").recall("after it").evidence
            assert memory.user("a").doctor(sample=0).problems == []
        if made[0] < place:
            break


def attempt(call: Callable[[], Any]) -> None:
    try:
        call()
    except LangMemGraphError as error:
        assert "\n" not in str(error)


def test_a_ledger_that_cannot_be_written_leaves_none_of_0_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system without hard links."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    written = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **options: Any) -> Any:
        file = written(path, mode, *given, **options)
        if mode != "xb":
            return file
        file.close()
        return written(Path("/dev/full"), "wb", buffering=0)

    with Memory(tmp_path / "m", embeddings=HashEmbeddings()) as memory:
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", refuse)
            patch.setattr(Path, "open", full)
            with pytest.raises(LangMemGraphError, match="No space left"):
                memory.user("a").add(said("text"), session_id="s")
        memory.user("a").add(said("text"), session_id="s")
        assert len(memory.user("a").export()) == 1
