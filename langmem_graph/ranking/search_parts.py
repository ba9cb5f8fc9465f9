"""Common parts of all searches: candidate depths, notes on time and failures, exact comparison."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from langmem_graph.errors import for_log
from langmem_graph.store.lookups import VectorRows

_log = logging.getLogger(__name__)


@dataclass
class SearchNotes:
    """Notes on a search: how long each stage took, and what failed."""

    milliseconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time the block takes to the stage."""
        start = perf_counter()
        try:
            yield
        finally:
            passed = (perf_counter() - start) * 1_000
            self.milliseconds[name] = self.milliseconds.get(name, 0.0) + passed

    def warn(self, problem: Exception) -> None:
        """Note a part that failed; the search goes on without it."""
        _log.warning("%s", for_log(problem))
        self.warnings.append(str(problem))


@dataclass(frozen=True)
class Depths:
    """How many messages each list gives."""

    dense: int
    words: int


def nearest(
    blocks: Iterable[VectorRows], vector: NDArray[np.float32], depth: int | None
) -> list[int]:
    """The items with the nearest of these vectors, compared one by one; None is all of them."""
    best: dict[int, float] = {}
    for rows in blocks:
        cosines: list[float] = (rows.matrix @ vector).tolist() if len(rows) else []
        for item, cosine in zip(rows.items.tolist(), cosines, strict=True):
            best[item] = max(cosine, best.get(item, -2.0))
    return sorted(best, key=lambda item: -best[item])[:depth]
