"""The scorer without a local model: the chat model that proposes a pair says how sure it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from langmem_graph.errors import InvalidInputError
from langmem_graph.link.causal.scorers import CausalScorer, Pair

Verdict = Literal["yes", "maybe", "no"]
"""What the causal call's answer says of each pair it proposes."""

_SCORES: dict[str, float] = {"yes": 1.0, "maybe": 0.5, "no": 0.0}


@dataclass(frozen=True)
class VerifierScorer(CausalScorer):
    """Maps verdicts to scores: yes 1, maybe 0.5, no 0. It calls no model itself.

    Keep what scores above 0.5, that is `yes` alone. There is nothing to calibrate: a pair
    without a verdict scores 0.

    Args:
        verdicts: of the pairs in question; none at first, see `given`.
    """

    verdicts: Mapping[Pair, Verdict] = field(default_factory=dict)
    name: str = "verifier"

    def given(self, verdicts: Mapping[Pair, Verdict]) -> "VerifierScorer":
        """A scorer that knows these verdicts; this one stays as it is.

        Raises:
            InvalidInputError: something else than yes, maybe or no.
        """
        if wrong := sorted({str(said) for said in verdicts.values()} - _SCORES.keys()):
            raise InvalidInputError(
                f"Unknown verdicts {wrong}: map the model's answer to one of {get_args(Verdict)}."
            )
        return VerifierScorer(dict(verdicts), self.name)

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """From 0 to 1; 0 where no verdict was given."""
        return [_SCORES[self.verdicts.get(pair, "no")] for pair in pairs]
