"""The reward of a trajectory: NapMem's terms (format, correctness, tool use), judged or by F1."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from langmem_graph.errors import InvalidInputError
from langmem_graph.navigate._models import Navigation, QuestionItem

Judge = Callable[[QuestionItem, str], bool | float]
"""Whether an answer is correct: a boolean, or a number from 0.5 for a correct one."""
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
    """The best F1 against any of the gold answers; 0 where there is none."""
    return max((token_f1(answer, gold) for gold in golds), default=0.0)


def f1_judge(enough: float = ENOUGH) -> Judge:
    """A judge without a model: an answer is correct from an F1 of `enough`."""
    return lambda item, answer: best_f1(answer, item.answers) >= enough


def napmem_reward(*, well_formed: bool, correct: bool, used: bool) -> float:
    """The reward of NapMem 3.4: malformed −1; correct 1, or 0 without a tool; wrong −0.5, or −1."""
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
    """A reward and its terms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reward: float
    well_formed: bool
    correct: bool
    used: bool
    """A memory tool was called without an error."""
    evidence: float | None = None


@dataclass(frozen=True)
class Rubric:
    """Computes the reward of a finished rollout.

    Args:
        judge: decides whether an answer is correct; an `f1_judge()` by default.
        usage: NapMem's third term: a correct answer without a tool call has reward 0. Off by
            default, since it was found to train needless calls; without it every rollout is
            scored as if it had used a tool. It never applies to items that need no memory.
        evidence: weight of the share of gold ids shown, added for well-formed answers. Not in the
            paper; below 0.5 a wrong answer can never earn as much as a correct one.
    """

    judge: Judge = field(default_factory=f1_judge)
    usage: bool = False
    evidence: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.evidence < 0.5:
            raise InvalidInputError(f"evidence must be from 0 to below 0.5, not {self.evidence}.")

    def score(self, item: QuestionItem, navigation: Navigation) -> Score:
        """The reward of one rollout with its terms; without an answer it is malformed."""
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
