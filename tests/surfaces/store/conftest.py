"""Stores in temporary directories."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from langmem_graph.store.chroma_store import ChromaStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChromaStore]:
    with ChromaStore(tmp_path / "store", embeddings="hash") as opened:
        yield opened


@pytest.fixture(scope="module")
def shared() -> Iterator[ChromaStore]:
    folder = tempfile.mkdtemp()
    with ChromaStore(folder, embeddings="hash") as opened:
        yield opened
    shutil.rmtree(folder)
