"""What a navigation is worth: NapMem's reward, with a judge or with F1, as pure functions."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from langmem_graph.errors import InvalidInputError
from langmem_graph.navigate._models import Navigation, QuestionItem

Judge = Callable[[QuestionItem, str], bool | float]
"""Is this answer right? True or False, or a number of which 0.5 and more is right."""
ENOUGH = 0.5
_ARTICLES = {"a", "an", "the"}


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation and English articles."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in re.findall(r"\w+", plain) if word not in _ARTICLES]


def token_f1(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall of the answer's words; two empty texts agree."""
    said, wanted = words_of(answer), words_of(gold)
    if not said or not wanted:
        return float(not said and not wanted)
    return 2 * (Counter(said) & Counter(wanted)).total() / (len(said) + len(wanted))


def best_f1(answer: str, golds: Sequence[str]) -> float:
    """F1 against the gold answer that is nearest; 0 where there is none."""
    return max((token_f1(answer, gold) for gold in golds), default=0.0)


def f1_judge(enough: float = ENOUGH) -> Judge:
    """A judge that needs no model: right from an F1 of `enough`."""
    return lambda item, answer: best_f1(answer, item.answers) >= enough


def napmem_reward(*, well_formed: bool, correct: bool, used: bool) -> float:
    """NapMem's table (3.4): no format −1; right 1, or 0 without a look; wrong −0.5, or −1."""
    if not well_formed:
        return -1.0
    if used:
        return 1.0 if correct else -0.5
    return 0.0 if correct else -1.0


def evidence_shown(item: QuestionItem, navigation: Navigation) -> float | None:
    """The share of the gold ids that were shown; None where the item names none."""
    gold = set(item.evidence)
    return len(gold & navigation.shown) / len(gold) if gold else None


class Score(BaseModel):
    """A reward and what it is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reward: float
    well_formed: bool
    correct: bool
    used: bool
    """A memory tool was called; a call that failed was none."""
    evidence: float | None = None


@dataclass(frozen=True)
class Rubric:
    """How a finished navigation is scored.

    Args:
        judge: whether an answer is right; an `f1_judge()` by default.
        usage: NapMem's third term: a right answer without a look at memory earns nothing. Off by
            default, since it was seen to train needless calls; without it every navigation is
            scored as if it had looked. It never counts for items that need no memory.
        evidence: added for well-formed answers, times the share of the gold ids shown. Not in the
            paper; below 0.5 it can never make a wrong answer worth as much as a right one.
    """

    judge: Judge = field(default_factory=f1_judge)
    usage: bool = False
    evidence: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.evidence < 0.5:
            raise InvalidInputError(f"evidence must be from 0 to below 0.5, not {self.evidence}.")

    def score(self, item: QuestionItem, navigation: Navigation) -> Score:
        """The reward of one navigation; one that has not answered is malformed."""
        well_formed = navigation.finish == "answered" and navigation.well_formed
        correct = well_formed and self.judge(item, navigation.answer) >= ENOUGH
        used = any(use.error is None for use in navigation.tool_calls)
        counted = used or not self.usage or not item.needs_memory
        reward = napmem_reward(well_formed=well_formed, correct=correct, used=counted)
        share = evidence_shown(item, navigation)
        if well_formed and share is not None:
            reward += self.evidence * share
        return Score(
            reward=reward, well_formed=well_formed, correct=correct, used=used, evidence=share
        )
