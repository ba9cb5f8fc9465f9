"""Memories that retrieval is tested on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from tests.conftest import let_go
from tests.support.settings import nested


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Any]:
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        while opened:
            opened.pop().close()
        chosen = nested(
            **{
                "extraction__debounce_seconds": 3_600,
                "storage__closing_seconds": 0.01,
                **settings,
            }
        )
        opened.append(
            Memory(tmp_path / "m", model=model, embeddings="hash", settings=chosen)
        )
        return opened[-1]

    yield make
    let_go(*opened)
