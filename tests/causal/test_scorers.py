"""Causal scores against numbers worked out by hand, and their calibration."""

import asyncio
import inspect
import sys
import time
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph import causal
from langmem_graph.causal.scorers import (
    CausalScorer,
    ContrastScorer,
    NoScorer,
    Pair,
    PmiScorer,
    TokenLogProbs,
    VerifierScorer,
    acalibrate,
    calibrate,
    create_causal_scorer,
)
from langmem_graph.errors import InvalidInputError

KNOWN = {
    ("The fact is that", " Bo fell"): 5.0,
    ("It rained. As a result,", " Bo fell"): 3.0,
    ("It rained. Also,", " Bo fell"): 4.5,
    ("It rained. Later,", " Bo fell"): 4.0,
    ("Bo fell. As a result,", " It rained"): 9.0,
    ("Bo fell. Also,", " It rained"): 6.0,
}

FORWARD, BACKWARD = ("It rained", "Bo fell"), ("Bo fell", "It rained")


class KnownNats:
    """A language model that knows a few answers, and counts what it is asked."""

    def __init__(
        self, known: Mapping[tuple[str, str], float] = KNOWN, wait: float = 0
    ) -> None:
        self.known, self.wait = known, wait
        self.asked: list[tuple[str, str]] = []

    def nll(self, prefix: str, continuation: str) -> float:
        time.sleep(self.wait)
        self.asked.append((prefix, continuation))
        return self.known[prefix, continuation]


class LengthScorer(CausalScorer):
    """Scores a pair by numbers that its texts are."""

    name = "length"

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        return [float(cause) * 1_000 + float(effect) for cause, effect in pairs]


# --- the formulas --------------------------------------------------------------------------------


def test_pmi_is_what_the_cause_takes_off_the_surprise() -> None:
    assert PmiScorer(KnownNats()).score([FORWARD]) == [5.0 - 3.0]


def test_contrast_is_as_a_result_against_also() -> None:
    assert ContrastScorer(KnownNats()).score([FORWARD, BACKWARD]) == [
        4.5 - 3.0,
        6.0 - 9.0,
    ]


def test_contrast_later_takes_the_mean_of_two() -> None:
    scorer = create_causal_scorer("contrast+later", KnownNats())
    assert scorer.score([FORWARD]) == [(4.5 + 4.0) / 2 - 3.0]


def test_the_cause_comes_first_in_what_is_read() -> None:
    lm = KnownNats()
    ContrastScorer(lm).score([FORWARD])
    assert lm.asked == [
        ("It rained. Also,", " Bo fell"),
        ("It rained. As a result,", " Bo fell"),
    ]


@pytest.mark.parametrize("cause", ["It rained.", " It rained. ", "It rained"])
def test_a_cause_ends_with_one_full_stop(cause: str) -> None:
    assert PmiScorer(KnownNats()).score([(cause, " Bo fell ")]) == [2.0]


@pytest.mark.parametrize("end", ["!", "?", "…", "。"])
def test_a_cause_with_another_end_keeps_it(end: str) -> None:
    lm = KnownNats(
        {("The fact is that", " B"): 1.0, (f"A{end} As a result,", " B"): 0.5}
    )
    assert PmiScorer(lm).score([(f"A{end}", "B")]) == [0.5]


@pytest.mark.parametrize("name", ["pmi", "contrast", "contrast+later"])
def test_nothing_is_read_twice_in_one_call(name: Any) -> None:
    lm = KnownNats()
    once = create_causal_scorer(name, lm).score([FORWARD])
    number = len(lm.asked)
    lm.asked.clear()
    assert create_causal_scorer(name, lm).score([FORWARD] * 3) == once * 3
    assert len(lm.asked) == number


@pytest.mark.parametrize(
    "name", ["pmi", "contrast", "contrast+later", "verifier", "none"]
)
def test_no_pairs_have_no_scores(name: Any) -> None:
    assert create_causal_scorer(name, KnownNats()).score([]) == []


@pytest.mark.parametrize("name", ["pmi", "contrast", "contrast+later"])
@pytest.mark.parametrize("pair", [("", "b"), ("a", ""), (" \n", "b"), ("a", "\t")])
def test_an_empty_text_is_refused_before_anything_is_read(
    name: Any, pair: Pair
) -> None:
    lm = KnownNats()
    with pytest.raises(InvalidInputError, match="empty text"):
        create_causal_scorer(name, lm).score([FORWARD, pair])
    assert lm.asked == []


def test_none_lets_nothing_pass() -> None:
    assert NoScorer().score([FORWARD, BACKWARD]) == [-inf, -inf]


# --- verdicts ------------------------------------------------------------------------------------


def test_verdicts_become_scores() -> None:
    scorer = VerifierScorer().given(
        {FORWARD: "yes", BACKWARD: "no", ("a", "b"): "maybe"}
    )
    assert scorer.score([("a", "b"), FORWARD, BACKWARD, ("b", "a")]) == [
        0.5,
        1.0,
        0.0,
        0.0,
    ]


def test_verdicts_do_not_outlive_their_call() -> None:
    scorer = VerifierScorer()
    scorer.given({FORWARD: "yes"})
    assert scorer.score([FORWARD]) == [0.0]


def test_an_unknown_verdict_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"\['surely'\].*yes"):
        VerifierScorer().given({FORWARD: "surely"})  # type: ignore[dict-item]


# --- the factory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["pmi", "contrast", "contrast+later", "verifier", "none"]
)
def test_every_scorer_bears_its_name(name: Any) -> None:
    scorer = create_causal_scorer(name, KnownNats())
    assert isinstance(scorer, CausalScorer)
    assert scorer.name == name


def test_the_default_depends_on_what_there_is() -> None:
    assert create_causal_scorer().name == "verifier"
    assert create_causal_scorer(lm=KnownNats()).name == "contrast+later"


def test_an_unknown_scorer_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'magic'.*pmi, contrast"):
        create_causal_scorer("magic", KnownNats())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["pmi", "contrast", "contrast+later"])
def test_a_scorer_that_reads_needs_a_model(name: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=f"{name!r}".replace("+", r"\+") + ".*LlamaServer"
    ):
        create_causal_scorer(name)


def test_all_public_names_are_there() -> None:
    assert all(getattr(causal, name) for name in causal.__all__)
    assert isinstance(KnownNats(), TokenLogProbs)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = causal.nothing_like_it


def test_importing_the_package_loads_no_model_library() -> None:
    import subprocess

    code = "import sys, langmem_graph.causal; print({'torch', 'transformers'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


# --- async twins ---------------------------------------------------------------------------------


async def test_the_async_twin_gives_the_same_and_blocks_nothing() -> None:
    scorer = PmiScorer(KnownNats(wait=0.05))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    with blockbuster_ctx():
        assert await scorer.ascore([FORWARD]) == [2.0]
    ticking.cancel()
    assert ticks >= 3


async def test_calibration_has_a_twin() -> None:
    texts = ["1", "2", "3"]
    assert inspect.signature(acalibrate) == inspect.signature(calibrate)
    assert await acalibrate(LengthScorer(), texts) == calibrate(LengthScorer(), texts)


# --- calibration ---------------------------------------------------------------------------------


def test_all_pairs_are_drawn_where_there_are_few() -> None:
    texts = ["1", "2", "3"]  # scores 1002, 1003, 2001, 2003, 3001, 3002
    assert calibrate(LengthScorer(), texts, percentile=100) == 3002
    assert calibrate(LengthScorer(), texts, percentile=50) == 2003
    assert calibrate(LengthScorer(), texts, percentile=0) == 1002


@given(
    texts=st.lists(st.integers(1, 999).map(str), min_size=2, max_size=30, unique=True),
    percentile=st.floats(0, 100),
    pairs=st.integers(1, 300),
    seed=st.integers(0, 1_000),
)
def test_no_more_than_the_rest_passes(
    texts: list[str], percentile: float, pairs: int, seed: int
) -> None:
    seen: list[Pair] = []

    class Seeing(LengthScorer):
        def score(self, pairs: Sequence[Pair]) -> list[float]:
            seen.extend(pairs)
            return super().score(pairs)

    options = {"pairs": pairs, "seed": seed}
    threshold = calibrate(Seeing(), texts, percentile=percentile, **options)
    scores = LengthScorer().score(seen)
    assert threshold in scores
    assert (
        sum(score > threshold for score in scores)
        <= len(scores) * (1 - percentile / 100) + 1e-6
    )
    assert len(set(seen)) == len(seen) == min(pairs, len(texts) * (len(texts) - 1))
    assert all(
        cause != effect and {cause, effect} <= {*texts} for cause, effect in seen
    )
    assert (
        calibrate(LengthScorer(), texts, percentile=percentile, **options) == threshold
    )


def test_the_order_of_records_does_not_matter_and_the_seed_does() -> None:
    texts = [str(n) for n in range(100, 160)]
    one = calibrate(LengthScorer(), texts, pairs=20)
    assert one == calibrate(LengthScorer(), [*reversed(texts), *texts, " "], pairs=20)
    others = {
        calibrate(LengthScorer(), texts, pairs=20, seed=seed) for seed in range(5)
    }
    assert len(others) > 1


def test_what_scores_nothing_lets_nothing_pass_after_calibration() -> None:
    assert calibrate(NoScorer(), ["a", "b", "c"]) == -inf
    assert calibrate(VerifierScorer(), ["a", "b", "c"]) == 0


@pytest.mark.parametrize("texts", [[], ["a"], ["a", "a", " "]])
def test_too_few_records_are_refused(texts: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="two different texts"):
        calibrate(NoScorer(), texts)


@pytest.mark.parametrize(
    "wrong", [{"percentile": -1}, {"percentile": 101}, {"pairs": 0}]
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="percentile"):
        calibrate(NoScorer(), ["a", "b"], **wrong)
