"""A memory that calls are filled from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.memory import Memory
from tests.conftest import let_go
from tests.support.flights import SAID
from tests.support.settings import nested


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Any]:
    opened: list[Memory] = []

    def make(model: Any, **settings: Any) -> Memory:
        chosen = nested(
            **{
                "extraction__debounce_seconds": 3_600,
                "storage__closing_seconds": 0.01,
                **settings,
            }
        )
        memory = Memory(tmp_path / "m", model=model, embeddings="hash", settings=chosen)
        opened.append(memory)
        rows = [
            {"role": "user", "content": text, "id": own} for own, text in SAID.items()
        ]
        memory.user("ana").add(rows, session_id="s", at="2025-03-01")
        return memory

    yield make
    let_go(*opened)
