"""Measures against values worked out by hand."""

from math import log2

import pytest

from benchmarks.metrics.ranking import (
    ndcg,
    ndcg_realmem,
    recall,
    recall_all,
    recall_any,
)

RANKED = ["a", "b", "c", "d"]


def test_recall_is_the_fraction_of_the_gold():
    assert recall(RANKED, {"b", "d", "x"}, 2) == pytest.approx(1 / 3)
    assert recall(RANKED, {"b", "d", "x"}, 10) == pytest.approx(2 / 3)
    assert recall([], {"b"}, 10) == 0


def test_any_and_all():
    assert recall_any(RANKED, {"c", "x"}, 2) == 0
    assert recall_any(RANKED, {"c", "x"}, 3) == 1
    assert recall_all(RANKED, {"c", "x"}, 4) == 0
    assert recall_all(RANKED, {"a", "c"}, 2) == 0
    assert recall_all(RANKED, {"a", "c"}, 3) == 1


def test_ndcg_standard():
    # Gold at ranks 2 and 4: (1/log2 3 + 1/log2 5) / (1/log2 2 + 1/log2 3)
    expected = (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))
    assert ndcg(RANKED, {"b", "d"}, 10) == pytest.approx(expected)
    assert ndcg(RANKED, {"a", "b"}, 10) == 1


def test_ndcg_as_realmem_scripts_it():
    # Gold at ranks 2 and 4: (1/log2 2 + 1/log2 4) / (1 + 1/log2 2) = 1.5 / 2
    assert ndcg_realmem(RANKED, {"b", "d"}, 10) == pytest.approx(0.75)
    assert ndcg_realmem(RANKED, {"b"}, 10) == ndcg_realmem(RANKED, {"a"}, 10) == 1


def test_ndcg_is_perfect_when_the_cut_is_full_of_gold():
    assert ndcg(RANKED, {"a", "b", "c"}, 2) == 1
    assert ndcg_realmem(RANKED, {"a", "b", "c"}, 2) == 1


def test_an_item_found_twice_counts_once():
    assert ndcg(["a", "a", "b"], {"a"}, 10) == 1
    assert recall(["a", "a"], {"a", "b"}, 10) == 0.5
