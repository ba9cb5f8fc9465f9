"""The causal scorers, and their calibration on a user's own records (ActMem 1.2, step
6; 1.6, A3).

`PmiScorer` and `ContrastScorer` use a local language model's probabilities,
`VerifierScorer` the chat model's own verdicts. None of them tells cause from effect:
with its texts swapped, about one causal pair in three scores higher (docs/causal.md).
So the caller takes the direction from time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import fmean
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.server_urls import NOT_SHOWN, may_hold_password
from langmem_graph.threads import in_thread

ScorerName = Literal["pmi", "contrast", "contrast+later", "verifier", "none"]
Pair = tuple[str, str]
"""The cause's text, the effect's text: the earlier record first."""
Verdict = Literal["yes", "maybe", "no"]
"""A chat model's judgement of a pair."""

PMI_MIN = 0.8
"""ActMem's threshold for `pmi` with GPT2-Large (1.2, step 6); for other models use
`calibrate`.
"""
ALONE, CAUSED, ALSO, LATER = "The fact is that", "As a result,", "Also,", "Later,"
"""Connectives before the effect."""
_SCORES: dict[str, float] = {"yes": 1.0, "maybe": 0.5, "no": 0.0}
PERCENTILE, PAIRS = 95.0, 200
"""Defaults of `calibrate`; own figures."""


@runtime_checkable
class TokenLogProbs(Protocol):
    """A causal language model that tells how likely a given continuation is."""

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean negative log-likelihood of the continuation, in nats per token of it.

        Args:
            prefix: the text before; its own tokens are not counted.
            continuation: the text that is scored, with its leading space.

        Raises:
            CausalModelError: the model cannot be reached or used.
        """


@runtime_checkable
class CausalScorer(Protocol):
    """Scores pairs of texts. Scores of different scorers or models cannot be
    compared.
    """

    @property
    def name(self) -> str:
        """The name that an edge keeps of its scorer."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """One score for each pair, higher is more causal; the caller decides on the
        direction.

        Raises:
            InvalidInputError: a text is empty.
            CausalModelError: the language model behind the scorer cannot be used.
        """

    async def ascore(self, pairs: Sequence[Pair]) -> list[float]:
        """Async twin of `score`, in a thread."""
        return await in_thread(self.score, pairs)


@dataclass(frozen=True)
class PmiScorer(CausalScorer):
    """How much more likely the effect is after the cause (ActMem 1.2, step 6; 1.6, A3).

    The effect's mean nats per token after "The fact is that", minus those after the
    cause and "As a result,". Nearly every pair scores above 0, most of all one on the
    same topic (docs/causal.md). The language model is called for each pair and each
    different effect.
    """

    lm: TokenLogProbs
    name: str = "pmi"

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The scores, in nats per token."""
        joined = [_after(CAUSED, pair) for pair in pairs]
        alone = _nats(self.lm, [(ALONE, effect) for _, effect in joined])
        caused = _nats(self.lm, joined)
        return [before - after for before, after in zip(alone, caused, strict=True)]


@dataclass(frozen=True)
class ContrastScorer(CausalScorer):
    """How much more likely the effect is as a result than as a mere addition (our own
    scorer).

    The effect's mean nats per token after the cause and "Also,", minus those after the
    cause and "As a result,". A shared topic lowers both, and so cancels out. Of several
    connectives that claim no cause the mean is taken; the language model is called once
    more for each of them.
    """

    lm: TokenLogProbs
    name: str = "contrast"
    connectives: tuple[str, ...] = (ALSO,)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The scores, in nats per token."""
        by_connective = [
            _nats(self.lm, [_after(connective, pair) for pair in pairs])
            for connective in (*self.connectives, CAUSED)
        ]
        return [
            fmean(others) - caused
            for *others, caused in zip(*by_connective, strict=True)
        ]


@dataclass(frozen=True)
class NoScorer(CausalScorer):
    """Scores every pair minus infinity, so that none exceeds any threshold."""

    name: str = "none"

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Minus infinity for each pair."""
        return [-inf] * len(pairs)


@dataclass(frozen=True)
class VerifierScorer(CausalScorer):
    """Maps the chat model's verdicts to scores: yes 1, maybe 0.5, no 0. It calls no
    model itself.

    Keep scores above 0.5, that is `yes` alone. There is nothing to calibrate; a pair
    without a verdict scores 0.
    """

    verdicts: Mapping[Pair, Verdict] = field(default_factory=dict)
    name: str = "verifier"

    def given(self, verdicts: Mapping[Pair, Verdict]) -> "VerifierScorer":
        """A scorer that knows these verdicts; this one stays as it is.

        Raises:
            InvalidInputError: a verdict other than yes, maybe or no.
        """
        if wrong := sorted(
            {str(verdict) for verdict in verdicts.values()} - _SCORES.keys()
        ):
            raise InvalidInputError(
                f"Unknown verdicts {wrong}: map the model's answer to one of "
                f"{get_args(Verdict)}."
            )
        return VerifierScorer(dict(verdicts), self.name)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Scores from 0 to 1; 0 where no verdict was given."""
        return [_SCORES[self.verdicts.get(pair, "no")] for pair in pairs]


def _after(connective: str, pair: Pair) -> Pair:
    """The prefix that ends with the connective, and the effect that follows it."""
    cause, effect = (text.strip() for text in pair)
    if not cause or not effect:
        raise InvalidInputError(
            "A pair has an empty text; leave out records without text."
        )
    end = "" if cause[-1] in ".!?…。！？" else "."
    return f"{cause}{end} {connective}", effect


def _nats(lm: TokenLogProbs, joined: Sequence[Pair]) -> list[float]:
    """Mean nats per token of each effect after its prefix; equal pairs are computed
    once.
    """
    nats = {pair: lm.nll(pair[0], f" {pair[1]}") for pair in dict.fromkeys(joined)}
    return [nats[pair] for pair in joined]


def create_causal_scorer(
    name: ScorerName | None = None, lm: TokenLogProbs | None = None
) -> CausalScorer:
    """The scorer of this name.

    Args:
        name: `pmi` (as ActMem has it), `contrast`, `contrast+later` (against "Also,"
            and "Later,"), `verifier` (the chat model's own verdicts) or `none`.
            Default: `contrast+later` where there is a language model (docs/causal.md
            says why), else `verifier`.
        lm: the language model that the first three use; the other two ignore it.

    Raises:
        InvalidInputError: an unknown name, or no language model for a scorer that uses
            one.
    """
    chosen = name or ("verifier" if lm is None else "contrast+later")
    if chosen == "verifier":
        return VerifierScorer()
    if chosen == "none":
        return NoScorer()
    if chosen not in get_args(ScorerName):
        named = NOT_SHOWN if may_hold_password(chosen) else repr(chosen)
        raise InvalidInputError(
            f"Unknown causal scorer ({named}): take one of "
            f"{', '.join(get_args(ScorerName))}."
        )
    if lm is None:
        raise InvalidInputError(
            f"The causal scorer {quoted(chosen)} reads a local language model: give"
            " `lm=LlamaServer(url)`, or choose 'verifier' or 'none'."
        )
    if chosen == "pmi":
        return PmiScorer(lm)
    return ContrastScorer(
        lm, chosen, (ALSO,) if chosen == "contrast" else (ALSO, LATER)
    )


def calibrate(
    scorer: CausalScorer,
    texts: Sequence[str],
    *,
    percentile: float = PERCENTILE,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """A threshold for a scorer: the given percentile of its scores of random pairs.

    Random records are seldom cause and effect, so about `100 - percentile` percent of
    unrelated pairs exceed it. Of pairs on one topic more do: docs/causal.md says how
    many. A threshold holds for this scorer, this language model and this user only.

    Args:
        scorer: the scorer that the threshold is for.
        texts: one user's records, at best all; with fewer than about 20 it means
            little.
        percentile: from 0 to 100, default 95 (own figure).
        pairs: how many pairs to draw, default 200 (own figure); at most as many as
            there are.
        seed: the same seed draws the same pairs.

    Raises:
        InvalidInputError: fewer than two different texts, or a number out of its range.
        CausalModelError: from the scorer.
    """
    if not 0 <= percentile <= 100 or pairs < 1:
        raise InvalidInputError(
            f"percentile={percentile} must be from 0 to 100, and pairs={pairs} at "
            "least 1."
        )
    scores = scorer.score(_random_pairs(texts, pairs, seed))
    return float(np.percentile(scores, percentile, method="higher"))


async def acalibrate(
    scorer: CausalScorer,
    texts: Sequence[str],
    *,
    percentile: float = PERCENTILE,
    pairs: int = PAIRS,
    seed: int = 0,
) -> float:
    """Async twin of `calibrate`, in a thread."""
    return await in_thread(
        calibrate, scorer, texts, percentile=percentile, pairs=pairs, seed=seed
    )


def _random_pairs(texts: Sequence[str], pairs: int, seed: int) -> list[Pair]:
    """Ordered pairs of two different texts, none twice."""
    different = sorted({text for text in texts if text.strip()})
    size = len(different)
    if size < 2:
        raise InvalidInputError(
            f"Calibration needs two different texts at least, got {size}: wait for "
            "more records."
        )
    places = range(size * (size - 1))
    drawn = Random(seed).sample(places, min(pairs, len(places)))  # noqa: S311 - no secret
    numbered = [divmod(place, size - 1) for place in drawn]
    return [
        (different[first], different[(first + 1 + step) % size])
        for first, step in numbered
    ]
