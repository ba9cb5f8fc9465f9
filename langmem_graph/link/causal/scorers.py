"""The scorers that read a local language model's probabilities, and the one that reads nothing.

None of them tells cause from effect: turned round, about one causal pair in three scores higher
(docs/causal.md). Who calls takes the direction from time, the earlier record being the cause.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Protocol, runtime_checkable

from langmem_graph.errors import InvalidInputError
from langmem_graph.link.causal.language_model import TokenLogProbs

Pair = tuple[str, str]
"""The cause's text, the effect's text: the earlier record first."""

PMI_MIN = 0.8
"""ActMem's threshold for `pmi` with GPT2-Large (1.2 step 6); for other models use `calibrate`."""

ALONE = "The fact is that"
CAUSED = "As a result,"
ALSO = "Also,"
LATER = "Later,"


@runtime_checkable
class CausalScorer(Protocol):
    """Gives pairs of texts a score. Scores of different scorers or models do not compare."""

    @property
    def name(self) -> str:
        """What an edge records as its scorer."""

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """One score per pair, higher is more causal; the direction is the caller's to know.

        Raises:
            InvalidInputError: a text is empty.
            CausalModelError: the language model behind the scorer cannot be used.
        """

    async def ascore(self, pairs: Sequence[Pair]) -> list[float]:
        """Async twin of `score`, in a thread."""
        return await asyncio.to_thread(self.score, pairs)


@dataclass(frozen=True)
class PmiScorer(CausalScorer):
    """How much less surprising the effect is after the cause (ActMem, 1.2 step 6 and 1.6 A3).

    The effect's mean nats per token after "The fact is that", minus those after the cause and
    "As a result,". Positive for nearly everything, topical pairs most of all (docs/causal.md).

    Args:
        lm: the language model; it reads each pair once and each different effect once more.
    """

    lm: TokenLogProbs
    name: str = "pmi"

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """In nats per token."""
        asked = [_after(CAUSED, pair) for pair in pairs]
        alone = _nats(self.lm, [(ALONE, effect) for _, effect in asked])
        return [one - other for one, other in zip(alone, _nats(self.lm, asked), strict=True)]


@dataclass(frozen=True)
class ContrastScorer(CausalScorer):
    """How much better the effect follows as a result than as something else to say (ours).

    The effect's mean nats per token after the cause and "Also,", minus those after the cause and
    "As a result,". A shared topic lowers both and cancels. With several connectives in place of
    "Also,", their mean is taken.

    Args:
        lm: the language model; it reads each pair once, and once more per connective.
        name: what edges record.
        connectives: that claim no cause; default "Also," alone.
    """

    lm: TokenLogProbs
    name: str = "contrast"
    connectives: tuple[str, ...] = (ALSO,)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """In nats per token."""
        *besides, caused = (
            _nats(self.lm, [_after(connective, pair) for pair in pairs])
            for connective in (*self.connectives, CAUSED)
        )
        return [fmean(others) - one for *others, one in zip(*besides, caused, strict=True)]


@dataclass(frozen=True)
class NoScorer(CausalScorer):
    """Scores every pair minus infinity, so no threshold lets one pass."""

    name: str = "none"

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Minus infinity for each."""
        return [-inf] * len(pairs)


def _after(connective: str, pair: Pair) -> Pair:
    """What the model reads first, and what it then judges."""
    cause, effect = (text.strip() for text in pair)
    if not cause or not effect:
        raise InvalidInputError("A pair has an empty text; leave out records without text.")
    end = "" if cause[-1] in ".!?…。！？" else "."
    return f"{cause}{end} {connective}", effect


def _nats(lm: TokenLogProbs, asked: Sequence[Pair]) -> list[float]:
    """Mean nats per token of each effect after its prefix; what comes twice is read once."""
    known = {one: lm.nll(one[0], f" {one[1]}") for one in dict.fromkeys(asked)}
    return [known[one] for one in asked]
