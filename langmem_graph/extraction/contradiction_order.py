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
        chains: ids, oldest first; an id that a chain repeats counts where it first stands.
        times: when each was said; ids without a time come last.
    """
    later: Edges = {item: set() for chain in chains for item in chain}
    for chain in chains:
        for earlier, following in pairwise(dict.fromkeys(chain)):
            later[earlier].add(following)
    ranks = {item: (to_utc(times[item]) if item in times else _LAST, item) for item in later}
    order: list[str] = []
    discarded: list[str] = []
    while later:
        order += _take_free(later, ranks)
        if later:
            discarded.append(_drop_one(later))
    return Order(order, discarded)


def _take_free(later: Edges, ranks: Ranks) -> list[str]:
    """Take the earliest id that none precedes, until each of the others has a predecessor."""
    before = Counter(following for items in later.values() for following in items)
    free = [ranks[item] for item in later if not before[item]]
    heapify(free)
    taken = []
    while free:
        _, item = heappop(free)
        taken.append(item)
        for following in later.pop(item):
            before[following] -= 1
            if not before[following]:
                heappush(free, ranks[following])
    return taken


def _drop_one(later: Edges) -> str:
    """Discard the id on a cycle that has the most successors; of several, the smallest."""
    most_followed = sorted(later, key=lambda item: (-len(later[item]), item))
    dropped = next(item for item in most_followed if _is_on_a_cycle(item, later))
    del later[dropped]
    for items in later.values():
        items.discard(dropped)
    return dropped


def _is_on_a_cycle(start: str, later: Edges) -> bool:
    """True when a path leads back to the id; what merely follows a cycle is on none."""
    seen: set[str] = set()
    ahead = list(later[start])
    while ahead:
        item = ahead.pop()
        if item == start:
            return True
        if item not in seen:
            seen.add(item)
            ahead += later[item]
    return False
