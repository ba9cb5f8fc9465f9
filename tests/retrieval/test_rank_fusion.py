"""Several rankings in one."""

import numpy as np
import pytest

from langmem_graph.retrieval.ranking import reciprocal_rank_fusion


def test_fusion_is_the_sum_of_reciprocal_ranks() -> None:
    scores = reciprocal_rank_fusion(
        [np.array([0.9, 0.5, 0.0]), np.array([0.0, 2.0, 5.0])], k=60
    )
    assert scores.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 62, 1 / 61])
