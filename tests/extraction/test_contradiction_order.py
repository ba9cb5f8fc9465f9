"""Merging chains into one order: nothing lost, nothing twice, the same however it is asked."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.extraction.contradiction_order import Order, merge_chains

DAY_0 = datetime(2025, 1, 1, tzinfo=UTC)
ids = st.sampled_from("abcdefghij")
many_chains = st.lists(st.lists(ids, max_size=6), max_size=8)
some_times = st.dictionaries(ids, st.integers(0, 5).map(lambda day: DAY_0 + timedelta(days=day)))


def edges(chains: Sequence[Sequence[str]]) -> set[tuple[str, str]]:
    return {edge for chain in chains for edge in pairwise(dict.fromkeys(chain))}


def cycle_members(nodes: set[str], links: set[tuple[str, str]]) -> set[str]:
    """Nodes that reach themselves, by plain transitive closure."""
    reach = {(one, other) for one, other in links if one in nodes and other in nodes}
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    return {one for one, other in reach if one == other}


def test_the_methods_example_discards_one_statement_only() -> None:
    chains = [["q", "b"], ["b", "q"], ["b", "k"], ["k", "y"], ["k", "z"], ["k", "w"]]
    assert merge_chains(chains, {}) == Order(["k", "q", "w", "y", "z"], ["b"])


def test_time_decides_where_the_chains_leave_a_choice() -> None:
    times = {"a": DAY_0 + timedelta(days=2), "b": DAY_0, "c": DAY_0 + timedelta(days=1)}
    assert merge_chains([["a"], ["b"], ["c"], ["z"]], times).order == ["b", "c", "a", "z"]
    assert merge_chains([["a", "b"], ["c"]], times).order == ["c", "a", "b"]


def test_naive_times_are_utc() -> None:
    times = {"a": datetime(2025, 1, 2), "b": DAY_0}
    assert merge_chains([["a"], ["b"]], times).order == ["b", "a"]


def test_an_id_said_twice_in_a_chain_and_edges_to_itself() -> None:
    assert merge_chains([["b", "b", "a", "b"]], {}) == Order(["b", "a"], [])
    assert merge_chains([[]], {}) == merge_chains([], {}) == Order([], [])


def test_what_only_follows_a_cycle_is_kept() -> None:
    followers = [f"n{number}" for number in range(9)]
    chains = [["x", "y"], ["y", "x"], ["y", "hub"], *(["hub", one] for one in followers)]
    assert merge_chains(chains, {}) == Order(["hub", *followers, "x"], ["y"])


def test_of_equals_on_a_cycle_the_smallest_goes() -> None:
    assert merge_chains([["c", "b"], ["b", "a"], ["a", "c"]], {}) == Order(["c", "b"], ["a"])


def assert_sound(chains: list[list[str]], times: dict[str, datetime]) -> None:
    merged = merge_chains(chains, times)
    given_ids = {one for chain in chains for one in chain}
    assert sorted(merged.order + merged.discarded) == sorted(given_ids)
    place = {one: position for position, one in enumerate(merged.order)}
    for one, other in edges(chains):
        assert one not in place or other not in place or place[one] < place[other]


@settings(max_examples=200, deadline=None)
@given(many_chains, some_times)
def test_nothing_is_lost_and_every_remaining_edge_holds(
    chains: list[list[str]], times: dict[str, datetime]
) -> None:
    assert_sound(chains, times)


@pytest.mark.stress
@settings(max_examples=3_000, deadline=None)
@given(many_chains, some_times)
def test_nothing_is_lost_3000_times(chains: list[list[str]], times: dict[str, datetime]) -> None:
    assert_sound(chains, times)


@settings(max_examples=300, deadline=None)
@given(many_chains, some_times)
def test_only_what_is_on_a_cycle_is_discarded(
    chains: list[list[str]], times: dict[str, datetime]
) -> None:
    remaining = {one for chain in chains for one in chain}
    for one in merge_chains(chains, times).discarded:
        assert one in cycle_members(remaining, edges(chains))
        remaining.discard(one)
    assert not cycle_members(remaining, edges(chains))


@settings(max_examples=500, deadline=None)
@given(many_chains, some_times, st.randoms())
def test_the_order_of_the_chains_does_not_matter(
    chains: list[list[str]], times: dict[str, datetime], chance: random.Random
) -> None:
    shuffled = chance.sample(chains, len(chains))
    assert merge_chains(shuffled, times) == merge_chains(chains, times)


def test_long_chains_are_merged_in_time() -> None:
    names = [f"m{number:05}" for number in range(20_000)]
    swapped = [pair[::-1] for pair in list(pairwise(names))[:200:2]]
    merged = merge_chains([names, *swapped], {})
    assert len(merged.order) == 19_900
    assert len(merged.discarded) == 100
