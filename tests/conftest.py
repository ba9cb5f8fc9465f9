"""Shared parts of the tests: memories in temporary directories, and embedders that misbehave."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from langchain_core.embeddings import Embeddings

from langmem_graph.memory import Memory
from langmem_graph.storage.memory_services import Services
from langmem_graph.testing import HashEmbeddings

# Read when the console is made: lines are not broken, wherever the tests run.
os.environ["COLUMNS"] = "160"
# How long an example takes depends on what else the machine does. The gate tries the same examples
# each time; `make stress` tries others.
settings.register_profile(
    "steady",
    deadline=None,
    derandomize="LANGMEM_GRAPH_ALL_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")
# A shell starts background jobs with SIGINT ignored, and their children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules with long tests come first, so that none of them is alone at the end."""
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


def pytest_collection_finish() -> None:
    """What stays to the end, modules and tests, is no garbage: collections need not visit it."""
    gc.collect()
    gc.freeze()


class TroubledEmbeddings(Embeddings):
    """The hash embedder, with trouble on request."""

    model_name = "troubled"

    def __init__(self) -> None:
        self.down = False
        self.poison: str | None = None
        self.answer: Callable[[list[list[float]]], Any] = lambda vectors: vectors
        self.calls = 0
        self._hash = HashEmbeddings()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        if self.down or (self.poison and any(self.poison in text for text in texts)):
            raise ConnectionError("the embedder is out")
        return self.answer(self._hash.embed_documents(texts))

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.fixture(autouse=True)
def _known_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted answers cite m1, n1 and so on; real aliases are drawn at random."""
    from langmem_graph.extraction import batch_view, reconcile_records

    for module in (batch_view, reconcile_records):
        monkeypatch.setattr(module, "draw_first_alias", lambda: 1)


@pytest.fixture
def troubled() -> TroubledEmbeddings:
    return TroubledEmbeddings()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    opened = Memory(tmp_path / "memory", embeddings="hash")
    yield opened
    let_go(opened)


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    """Opens the same directory again; everything is closed at the end."""
    opened: list[Memory] = []

    def open_again(**options: Any) -> Memory:
        while opened:
            opened.pop().close()
        options.setdefault("embeddings", "hash")
        opened.append(Memory(tmp_path / "memory", **options))
        return opened[-1]

    yield open_again
    let_go(*opened)


def let_go(*memories: Memory) -> None:
    """Close memories that no test opens again: what is due, such as an index, is left undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Services, "_finish_due_work", lambda *_: None)
        for memory in memories:
            memory.close()


def said(text: str, **fields: Any) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": text, **fields}
