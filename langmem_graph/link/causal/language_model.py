"""What a scorer asks of a local language model: how surprising a text is after another."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol, runtime_checkable

from langmem_graph.errors import InvalidInputError


@runtime_checkable
class TokenLogProbs(Protocol):
    """A causal language model that says how likely a given continuation is."""

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean negative log-likelihood of the continuation, in nats per token of it.

        Args:
            prefix: what comes before; its own tokens are not counted.
            continuation: what is judged, with its leading space.

        Raises:
            InvalidInputError: one of the two is empty.
            CausalModelError: the model cannot be reached or used.
        """


def check_texts(prefix: str, continuation: str) -> None:
    """Refuse what has no tokens to condition on or to judge."""
    if not prefix.strip() or not continuation.strip():
        raise InvalidInputError(
            "A causal score needs text before and after: got"
            f" {prefix[:40]!r} and {continuation[:40]!r}. Leave out records without text."
        )


def shared_start(prefix: Sequence[object], whole: Sequence[object]) -> int:
    """How many first tokens of the whole are the prefix alone.

    Some tokenizers join the last token of a prefix with what follows it; it is then counted with
    the continuation.
    """
    pairs = zip(prefix, whole, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
