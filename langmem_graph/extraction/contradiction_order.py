"""Order: a group's statements sorted by a model, checked, and all groups merged into one order.

Each group gives a chain, oldest first. Kahn's algorithm merges the chains; where they contradict
each other (a cycle), one statement is discarded at a time until the rest can be ordered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from itertools import pairwise

from langmem_graph.messages import to_utc

_LAST = datetime.max.replace(tzinfo=UTC)

Edges = dict[str, set[str]]
"""For each remaining id the remaining ids that must come after it."""
Ranks = dict[str, tuple[datetime, str]]


@dataclass(frozen=True)
class Order:
    """Ids in their order, and those left out of it; every id is in exactly one of the two."""

    order: list[str]
    discarded: list[str]


def check_resolution(
    ids: Sequence[str], sorted_ids: Sequence[str], discarded: Sequence[str]
) -> bool:
    """True when sorted and discarded ids are together exactly the ids given, each once."""
    answered = [*sorted_ids, *discarded]
    return len(answered) == len(set(answered)) and set(answered) == set(ids)


def resolve(
    ids: Sequence[str],
    times: Mapping[str, datetime],
    sorted_ids: Sequence[str],
    discarded: Sequence[str],
) -> Order:
    """A model's resolution of one group, or the order of time where it does not add up."""
    if check_resolution(ids, sorted_ids, discarded):
        return Order(list(sorted_ids), list(discarded))
    return Order(sorted(set(ids), key=_ranks(ids, times).__getitem__), [])


def merge_chains(chains: Sequence[Sequence[str]], times: Mapping[str, datetime]) -> Order:
    """One order that keeps every chain's order, the earliest first where the chains leave a choice.

    Args:
        chains: ids, oldest first; an id said twice in a chain counts where it first stands.
        times: when each was said; ids without a time come last.
    """
    later = _edges(chains)
    ranks = _ranks(later, times)
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


def _ranks(ids: Iterable[str], times: Mapping[str, datetime]) -> Ranks:
    return {one: (to_utc(times[one]) if one in times else _LAST, one) for one in ids}


def _take_free(later: Edges, ranks: Ranks) -> list[str]:
    """Kahn: take the earliest id that nothing comes before, until every id left has one before."""
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
    """Take out the id on a cycle that the most others follow; of several, the smallest."""
    most_followed = sorted(later, key=lambda one: (-len(later[one]), one))
    dropped = next(one for one in most_followed if _is_on_a_cycle(one, later))
    del later[dropped]
    for others in later.values():
        others.discard(dropped)
    return dropped


def _is_on_a_cycle(start: str, later: Edges) -> bool:
    """True when a walk along the edges comes back. What merely follows a cycle is on none."""
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
