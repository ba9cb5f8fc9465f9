"""The hand-written pairs must not be sortable by their surface, and the AUC must be right."""

import re
from statistics import fmean

import pytest

from benchmarks.causal.pairs import KINDS, PARTS, load, shared_words
from benchmarks.metrics.statistics import auc

TELLTALE = re.compile(
    r"\b(because|so|therefore|thus|hence|since|result\w*|caus\w*|due|led|consequen\w*|why)\b",
    re.I,
)


def _means(measure):
    return {kind: fmean(measure(group, kind) for group in load()) for kind in KINDS}


def test_there_are_enough_and_none_comes_twice():
    groups = load()
    texts = [
        text for group in groups for text in (group.cause, *group.effects.values())
    ]
    assert len(set(texts)) == len(texts) == 4 * len(groups)
    assert {group.part for group in groups} == set(PARTS)
    assert all(sum(group.part == part for group in groups) >= 40 for part in PARTS)
    assert len({group.topic for group in groups}) == 7


def test_no_word_gives_the_answer_away():
    for group in load():
        for text in (group.cause, *group.effects.values()):
            assert not TELLTALE.search(text), text


def test_effects_repeat_the_cause_no_more_than_topical_events_do():
    shared = _means(lambda group, kind: shared_words(group.cause, group.effects[kind]))
    assert shared["causal"] <= shared["topical"]
    assert shared["topical"] - shared["causal"] < 0.25
    assert shared["unrelated"] < 0.2


def test_lengths_and_beginnings_are_alike():
    lengths = {kind: [len(g.effects[kind].split()) for g in load()] for kind in KINDS}
    assert auc(lengths["causal"], lengths["topical"]) == pytest.approx(0.5, abs=0.15)
    assert auc(lengths["causal"], lengths["unrelated"]) == pytest.approx(0.5, abs=0.15)
    begins = _means(lambda group, kind: group.effects[kind].startswith("The user"))
    assert max(begins.values()) - min(begins.values()) < 0.15


def test_shared_words():
    assert shared_words("The cat chased a bird.", "Birds chase the CATS, also.") == 2
    assert shared_words("The user was out.", "The user was in.") == 0


def test_auc_by_hand():
    # 3 > 1, 3 > 2, 2 > 1 and 2 = 2: (1 + 1 + 1 + 0.5) / 4
    assert auc([3, 2], [1, 2]) == pytest.approx(3.5 / 4)
    assert auc([1, 2], [3, 4]) == 0
    assert auc([1], [1]) == 0.5
