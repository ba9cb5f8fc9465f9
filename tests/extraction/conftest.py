"""A memory that is opened again with another model."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from langmem_graph import Memory
from tests.support.writing import memory_at


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with memory_at(tmp_path / "m") as opening:
        yield opening
