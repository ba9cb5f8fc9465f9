"""Answer measures and statistics against values worked out by hand."""

from math import exp

import pytest

from benchmarks.metrics.answers import abstains, answer_bleu1, answer_f1
from benchmarks.metrics.statistics import auc, bootstrap_interval


def test_answer_f1_leaves_articles_and_case_out():
    # `red shed in garden` against `red shed`: 2 shared, 2 * 2 / (4 + 2)
    assert answer_f1("The red shed in the garden", "A red shed") == pytest.approx(4 / 6)
    assert answer_f1("", "red") == 0
    assert answer_f1("7 May 2023", "7 May, 2023.") == 1
    assert answer_f1("cafe\u0301", "caf\u00e9") == 1


def test_answer_bleu1_punishes_brevity():
    # one of one word right, brevity exp(1 - 3/1)
    assert answer_bleu1("May", "7 May 2023") == pytest.approx(exp(-2))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("I don't know.", True),
        ("That cannot be determined from what was said.", True),
        ("It is not mentioned.", True),
        ("There is no information about it.", True),
        ("There is no evidence of that.", True),
        ("That was not specified.", True),
        ("I'm not sure.", True),
        ("I know: Rome.", False),
        ("Rome", False),
        ("", False),
    ],
)
def test_abstaining_is_recognised(answer, expected):
    assert abstains(answer) is expected


def test_interval_holds_the_mean_and_is_repeatable():
    values = [0.0, 1.0] * 200
    low, high = bootstrap_interval(values)
    # Standard error of the mean of 400 coin tosses is 0.025; 1.96 of them to each side
    assert (low, high) == (
        pytest.approx(0.451, abs=0.01),
        pytest.approx(0.549, abs=0.01),
    )
    assert bootstrap_interval(values) == (low, high)


def test_interval_of_what_does_not_vary():
    assert bootstrap_interval([0.5, 0.5]) == (0.5, 0.5)
    assert bootstrap_interval([1.0]) == (1.0, 1.0)
    assert bootstrap_interval([]) == (0.0, 0.0)


def test_auc_counts_pairs():
    # pairs: 3>1, 3>2, 2>1, 2=2 -> 3.5 of 4
    assert auc([3, 2], [1, 2]) == pytest.approx(3.5 / 4)
