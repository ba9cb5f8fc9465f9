"""Chains of statements, each oldest first, merged into one order (Mem2ActBench 3.2, step 4).

Kahn's algorithm merges the chains. Where they contradict each other (a cycle), one statement at a
time is discarded until the rest can be ordered.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from itertools import pairwise

from langmem_graph.messages import to_utc

_LAST = datetime.max.replace(tzinfo=UTC)

Edges = dict[str, set[str]]
"""For each remaining id the remaining ids that must come after it."""
Ranks = dict[str, tuple[datetime, str]]
"""The time and the id of each statement: which comes first where the chains leave a choice."""


@dataclass(frozen=True)
class Order:
    """Ids in their order, and those left out of it; every id is in exactly one of the two."""

    order: list[str]
    discarded: list[str]


def merge_chains(chains: Sequence[Sequence[str]], times: Mapping[str, datetime]) -> Order:
    """One order that keeps every chain's order, the earliest first where the chains leave a choice.

    Args:
        chains: ids, oldest first; an id said twice in a chain counts where it first stands.
        times: when each was said; ids without a time come last.
    """
    later = _edges(chains)
    ranks = {one: (to_utc(times[one]) if one in times else _LAST, one) for one in later}
    order: list[str] = []
    discarded: list[str] = []
    while later:
        order += _take_free(later, ranks)
        if later:
            discarded.append(_drop_one(later))
    return Order(order, discarded)


def _edges(chains: Sequence[Sequence[str]]) -> Edges:
    later: Edges = {one: set() for chain in chains for one in chain}
    for chain in chains:
        for one, other in pairwise(dict.fromkeys(chain)):
            later[one].add(other)
    return later


def _take_free(later: Edges, ranks: Ranks) -> list[str]:
    """Take the earliest id that none precedes, until each of the others has a predecessor."""
    before = Counter(other for others in later.values() for other in others)
    free = [ranks[one] for one in later if not before[one]]
    heapify(free)
    taken = []
    while free:
        _, one = heappop(free)
        taken.append(one)
        for other in later.pop(one):
            before[other] -= 1
            if not before[other]:
                heappush(free, ranks[other])
    return taken


def _drop_one(later: Edges) -> str:
    """Discard the id on a cycle that has the most successors; of several, the smallest."""
    most_followed = sorted(later, key=lambda one: (-len(later[one]), one))
    dropped = next(one for one in most_followed if _is_on_a_cycle(one, later))
    del later[dropped]
    for others in later.values():
        others.discard(dropped)
    return dropped


def _is_on_a_cycle(start: str, later: Edges) -> bool:
    """True when a path leads back to the id; what merely follows a cycle is on none."""
    seen: set[str] = set()
    ahead = list(later[start])
    while ahead:
        one = ahead.pop()
        if one == start:
            return True
        if one not in seen:
            seen.add(one)
            ahead += later[one]
    return False
