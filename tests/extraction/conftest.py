"""A memory that is opened again with another model, and talks that change records."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from langmem_graph import Memory
from tests.support.changes_in_talk import Talk
from tests.support.models import AnswersBySchema
from tests.support.writing import memory_at


@pytest.fixture
def open_memory(tmp_path: Path) -> Iterator[Callable[..., Memory]]:
    with memory_at(tmp_path / "m") as opening:
        yield opening


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    with memory_at(tmp_path_factory.mktemp("talks") / "m") as opening:
        model = AnswersBySchema()
        yield opening(model), model


@pytest.fixture
def new_talk(_shared: tuple[Any, Any], _numbers: Iterator[int]) -> Callable[..., Talk]:
    """Begins a talk of a new user in a memory that the tests of a module share."""
    memory, model = _shared
    model.answers.clear()
    model.asked.clear()
    return lambda *first, **fields: Talk(
        memory, model, f"ana {next(_numbers)}", *first, **fields
    )


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return count()
