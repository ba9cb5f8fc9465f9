"""The reward of a rollout, metrics over many, and trajectories as JSON lines for
training.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import Field, ValidationError

from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.navigation.actions import (
    Finish,
    Navigation,
    NavigationModel,
    QuestionItem,
    ToolUse,
    navigation_tools,
    read_item,
)

Judge = Callable[[QuestionItem, str], bool | float]
"""Whether an answer is correct: a boolean, or a number from 0.5 for a correct one."""
ENOUGH = 0.5
_ARTICLES = {"a", "an", "the"}
Pair = tuple[QuestionItem, Navigation]


def words_of(text: str) -> list[str]:
    """Words in lower case, without punctuation and English articles."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in re.findall(r"\w+", plain) if word not in _ARTICLES]


def token_f1(answer: str, gold: str) -> float:
    """The harmonic mean of precision and recall of the answer's words; two empty texts
    agree.
    """
    words = words_of(answer)
    gold_words = words_of(gold)
    if not words or not gold_words:
        return float(not words and not gold_words)
    shared = (Counter(words) & Counter(gold_words)).total()
    return 2 * shared / (len(words) + len(gold_words))


def best_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 against any of the gold answers; 0 where there is none."""
    return max((token_f1(answer, gold) for gold in golds), default=0.0)


def f1_judge(enough: float = ENOUGH) -> Judge:
    """A judge without a model: an answer is correct from an F1 of `enough`."""
    return lambda item, answer: best_f1(answer, item.answers) >= enough


def napmem_reward(*, well_formed: bool, correct: bool, used: bool) -> float:
    """The reward of NapMem 3.4: malformed −1; correct 1, or 0 without a tool; wrong
    −0.5, or −1.
    """
    if not well_formed:
        return -1.0
    if used:
        return 1.0 if correct else -0.5
    return 0.0 if correct else -1.0


def evidence_shown(item: QuestionItem, navigation: Navigation) -> float | None:
    """The share of the gold ids that were shown; None where the item names none."""
    gold = set(item.evidence)
    return len(gold & navigation.shown) / len(gold) if gold else None


class Score(NavigationModel):
    """A reward and its terms."""

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
        usage: NapMem's third term: a correct answer without a tool call has reward 0.
            Off by default, since it was found to train needless calls; without it every
            rollout is scored as if it had used a tool. It never applies to items that
            need no memory.
        evidence: weight of the share of gold ids shown, added for well-formed answers.
            Not in the paper; below 0.5 a wrong answer can never earn as much as a
            correct one.
    """

    judge: Judge = field(default_factory=f1_judge)
    usage: bool = False
    evidence: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.evidence < 0.5:
            raise InvalidInputError(
                f"evidence must be from 0 to below 0.5, not {self.evidence}."
            )

    def score(self, item: QuestionItem, navigation: Navigation) -> Score:
        """The reward of one rollout with its terms; without an answer it is
        malformed.
        """
        well_formed = navigation.finish == "answered" and navigation.well_formed
        correct = well_formed and self.judge(item, navigation.answer) >= ENOUGH
        used = any(use.error is None for use in navigation.tool_calls)
        counted = used or not self.usage or not item.needs_memory
        reward = napmem_reward(well_formed=well_formed, correct=correct, used=counted)
        share = evidence_shown(item, navigation)
        if well_formed and share is not None:
            reward += self.evidence * share
        return Score(
            reward=reward,
            well_formed=well_formed,
            correct=correct,
            used=used,
            evidence=share,
        )


class NavigationMetrics(NavigationModel):
    """Shares from 0 to 1; None where no item counts for a metric."""

    items: int
    answered: float | None
    """Of all: answered within the tool budget."""
    tool_calls: float | None
    """Mean, of the items that need memory; failed calls count."""
    turns: float | None
    """Mean, of the items that need memory."""
    multi_level: float | None
    """Of the items that need memory: two or more layers were read."""
    evidence_hit: float | None
    """Of the tool calls for items with gold evidence: at least one gold id was
    shown.
    """
    evidence_recall: float | None
    """Of the gold ids of an item, the share shown at all; mean over the items that have
    some.
    """
    unneeded_calls: float | None
    """Of the items that need no memory: a tool was called."""
    tokens: float | None
    """Mean of input and output tokens, of all."""


def navigation_metrics(
    navigations: Sequence[Navigation], gold: Sequence[QuestionItem | Mapping[str, Any]]
) -> NavigationMetrics:
    """The metrics of many navigations.

    Args:
        navigations: finished or not; one that failed counts with the calls it made.
        gold: the item of each, in the same order.

    Raises:
        InvalidInputError: their numbers differ, or they belong to different questions.
    """
    pairs = _paired(navigations, gold)
    needing = [done for item, done in pairs if item.needs_memory]
    needless = [done for item, done in pairs if not item.needs_memory]
    evidenced = [
        (item, done) for item, done in pairs if item.needs_memory and item.evidence
    ]
    return NavigationMetrics(
        items=len(pairs),
        answered=_mean(done.finish == "answered" for _, done in pairs),
        tool_calls=_mean(len(done.tool_calls) for done in needing),
        turns=_mean(done.turns for done in needing),
        multi_level=_mean(
            len({use.layer for use in done.tool_calls} - {None}) > 1 for done in needing
        ),
        evidence_hit=_mean(hit for pair in evidenced for hit in _hits(*pair)),
        evidence_recall=_mean(
            evidence_shown(item, done) or 0.0 for item, done in evidenced
        ),
        unneeded_calls=_mean(bool(done.tool_calls) for done in needless),
        tokens=_mean(done.input_tokens + done.output_tokens for _, done in pairs),
    )


def _paired(
    navigations: Sequence[Navigation], gold: Sequence[QuestionItem | Mapping[str, Any]]
) -> list[Pair]:
    items = list(map(read_item, gold))
    if len(items) != len(navigations):
        raise InvalidInputError(
            f"{len(navigations)} navigations, but {len(items)} gold items."
        )
    pairs = list(zip(items, navigations, strict=True))
    for item, done in pairs:
        if (item.user_id, item.question) != (done.user_id, done.question):
            raise InvalidInputError(
                f"The gold item {item.id or item.question!r} is another's."
            )
    return pairs


def _hits(item: QuestionItem, navigation: Navigation) -> list[bool]:
    gold = set(item.evidence)
    return [
        not gold.isdisjoint([*use.message_ids, *use.record_ids])
        for use in navigation.tool_calls
    ]


def _mean(values: Iterable[float]) -> float | None:
    """The mean; None without values."""
    numbers = [float(value) for value in values]
    return fmean(numbers) if numbers else None


class TrajectoryMetadata(NavigationModel):
    """Metadata of a trajectory."""

    item: QuestionItem | None = None
    user_id: str
    question: str
    answer: str
    finish: Finish
    turns: int
    tool_calls: list[ToolUse]
    input_tokens: int
    output_tokens: int
    score: Score | None = None
    problems: list[str] = Field(default_factory=list)


class Trajectory(NavigationModel):
    """One line: a conversation in OpenAI's format with its tools, its reward, and
    metadata.
    """

    version: Literal[1] = 1
    messages: list[dict[str, Any]] = Field(min_length=2)
    tools: list[dict[str, Any]]
    reward: float | None = None
    metadata: TrajectoryMetadata


def trajectory(
    navigation: Navigation,
    item: QuestionItem | None = None,
    rubric: Rubric | None = None,
) -> Trajectory:
    """A navigation as a trajectory; it has a reward where its question item is
    given.
    """
    score = (rubric or Rubric()).score(item, navigation) if item else None
    fields = dict(navigation) | {"item": item, "score": score}
    names = TrajectoryMetadata.model_fields
    return Trajectory(
        messages=navigation.messages,
        tools=navigation_tools(),
        reward=score.reward if score else None,
        metadata=TrajectoryMetadata(**{name: fields[name] for name in names}),
    )


def write_trajectories(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write one trajectory per line, replacing the file; returns their number.

    The file is replaced when all are written, so they may be read from the same file.
    They contain users' messages and need the same protection as the memory.
    """
    target = Path(path)
    count = 0
    new = target.with_name(f"{target.name}.new")
    try:
        with new.open("w", encoding="utf-8", newline="\n") as file:
            for count, line in enumerate(trajectories, 1):  # noqa: B007
                file.write(line.model_dump_json() + "\n")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return count


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Read the trajectories of a file, one by one.

    Raises:
        InvalidInputError: a line is no trajectory; the error names it.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield Trajectory.model_validate_json(line)
            except ValidationError as error:
                why = explain(error)
                raise InvalidInputError(f"{path}, line {number}: {why}.") from error
