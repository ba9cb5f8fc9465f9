"""How far words are trusted: the weakest origin of several, and how much of a context
they get.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self, TypeVar, get_args

from langmem_graph.results import Fact
from langmem_graph.schemas import MessageHit, Origin, OriginatedModel, RecordStatement
from langmem_graph.settings import ContextSettings

_ORDER: tuple[Origin, ...] = get_args(Origin)
FOREIGN: frozenset[Origin] = frozenset(("tool", "import", "plumbing"))
"""Neither the user's words nor the assistant's."""
Found = TypeVar("Found", MessageHit, Fact)


def weakest(origins: Iterable[Origin]) -> Origin:
    """The origin that is trusted least; the user's own words without any."""
    return max(origins, key=_ORDER.index, default="user")


def note_of(shown: OriginatedModel | RecordStatement | Fact, speaker: str) -> str:
    """The origin of foreign words, for a line of a context, where the speaker does not
    tell it.
    """
    return (
        f" ({shown.origin})"
        if shown.origin in FOREIGN and shown.origin != speaker
        else ""
    )


@dataclass
class Allowance:
    """How many tokens of a context may still be words of others than the user."""

    others: float
    foreign: float

    @classmethod
    def of(cls, settings: ContextSettings, budget: int) -> Self:
        """What a context of so many tokens allows."""
        return cls(settings.others_share * budget, settings.foreign_share * budget)

    def take(self, shown: MessageHit | Fact, cost: int) -> bool:
        """Whether a line of so many tokens is allowed; if so, it is counted.

        Named people who talk to the user are stored in the place of the assistant, and
        are no others.
        """
        speaker = shown.speaker if isinstance(shown, Fact) else shown.name
        is_person = (
            shown.origin == "assistant" and bool(speaker) and speaker != "assistant"
        )
        if shown.origin == "user" or is_person:
            return True
        is_foreign = shown.origin in FOREIGN
        if cost > self.others or (is_foreign and cost > self.foreign):
            return False
        self.others -= cost
        self.foreign -= cost if is_foreign else 0
        return True


def bounded(hits: Sequence[Found], k: int, share: float) -> list[Found]:
    """What was found, with at most this share of `k` of them foreign: the first
    ones.
    """
    left = ceil(k * share)
    kept = list[Found]()
    for hit in hits:
        left -= hit.origin in FOREIGN
        if hit.origin not in FOREIGN or left >= 0:
            kept.append(hit)
    return kept
