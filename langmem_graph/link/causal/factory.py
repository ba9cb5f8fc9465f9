"""Which scorer: by name, or by what there is."""

from typing import Literal, get_args

from langmem_graph.errors import InvalidInputError
from langmem_graph.link.causal.language_model import TokenLogProbs
from langmem_graph.link.causal.scorers import (
    ALSO,
    LATER,
    CausalScorer,
    ContrastScorer,
    NoScorer,
    PmiScorer,
)
from langmem_graph.link.causal.verifier import VerifierScorer

ScorerName = Literal["pmi", "contrast", "contrast+later", "verifier", "none"]


def create_causal_scorer(
    name: ScorerName | None = None, lm: TokenLogProbs | None = None
) -> CausalScorer:
    """The scorer of this name.

    Args:
        name: `pmi` (as ActMem has it), `contrast`, `contrast+later` (against "Also," and "Later,"),
            `verifier` (the chat model's own verdicts) or `none`. Default: `contrast+later` where
            there is a language model (docs/causal.md says why), else `verifier`.
        lm: the language model that the first three read; the other two ignore it.

    Raises:
        InvalidInputError: an unknown name, or no language model for a scorer that reads one.
    """
    chosen = name or ("verifier" if lm is None else "contrast+later")
    if chosen == "verifier":
        return VerifierScorer()
    if chosen == "none":
        return NoScorer()
    if chosen not in get_args(ScorerName):
        raise InvalidInputError(
            f"Unknown causal scorer {chosen!r}: take one of {', '.join(get_args(ScorerName))}."
        )
    if lm is None:
        raise InvalidInputError(
            f"The causal scorer {chosen!r} reads a local language model: give"
            " `lm=LlamaServer(url)` or `lm=HuggingFaceModel(name)`, or choose 'verifier' or 'none'."
        )
    if chosen == "pmi":
        return PmiScorer(lm)
    return ContrastScorer(lm, chosen, (ALSO,) if chosen == "contrast" else (ALSO, LATER))
