"""Answers of all systems, summed up as Markdown tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.common import table
from benchmarks.loaders import Question
from benchmarks.metrics import (
    bootstrap_interval,
    ndcg,
    ndcg_realmem,
    recall,
    recall_all,
    recall_any,
)

MAIN_CUT = 10
_AT_MAIN_CUT = {
    "any": recall_any,
    "all": recall_all,
    "NDCG": ndcg,
    "NDCG as RealMem": ndcg_realmem,
}


@dataclass(frozen=True)
class Answer:
    """What a system found for a question, best first."""

    system: str
    conversation: str
    question: Question
    found: list[str]

    def recall(self, k: int = MAIN_CUT) -> float:
        """The fraction of the gold found in the first `k`."""
        return recall(self.found, self.question.gold, k)


def report(name: str, answers: Sequence[Answer], cuts: Sequence[int]) -> str:
    """All tables of one data set."""
    count = len({id(answer.question) for answer in answers})
    parts = [f"## {name}: {count:,} questions with gold\n", _overall(answers, cuts)]
    parts += _breakdown("Category", answers, lambda a: a.question.category)
    parts += _breakdown("Question kind", answers, lambda a: a.question.kind)
    parts += _breakdown("Conversation", answers, lambda a: a.conversation)
    return "\n".join([*parts, ""])


def _overall(answers: Sequence[Answer], cuts: Sequence[int]) -> str:
    """Recall is the fraction of gold found, mean over questions."""
    header = ["system", *(f"recall@{k}" for k in cuts), f"95% interval @{MAIN_CUT}"]
    header += [f"{name}@{MAIN_CUT}" for name in _AT_MAIN_CUT]
    return table(header, [_overall_row(s, own, cuts) for s, own in by_system(answers).items()])


def _overall_row(system: str, own: Sequence[Answer], cuts: Sequence[int]) -> list[str]:
    low, high = bootstrap_interval([answer.recall() for answer in own])
    others = (
        fmean(measure(answer.found, answer.question.gold, MAIN_CUT) for answer in own)
        for measure in _AT_MAIN_CUT.values()
    )
    recalls = (fmean(answer.recall(k) for answer in own) for k in cuts)
    return [
        system,
        *(f"{value:.3f}" for value in recalls),
        f"{low:.3f}–{high:.3f}",
        *(f"{value:.3f}" for value in others),
    ]


def _breakdown(
    title: str, answers: Sequence[Answer], label: Callable[[Answer], str]
) -> Sequence[str]:
    """Recall at the main cut per label; nothing where the data set has no such labels."""
    labels = sorted({label(answer) for answer in answers})
    if len(labels) < 2:
        return []
    systems = by_system(answers)
    rows = [_label_row(one, systems, label) for one in labels]
    return [f"\n{title}, recall@{MAIN_CUT}:\n", table(["", "questions", *systems], rows)]


def _label_row(
    one: str, systems: dict[str, list[Answer]], label: Callable[[Answer], str]
) -> list[str]:
    columns = [
        [answer.recall() for answer in own if label(answer) == one] for own in systems.values()
    ]
    return [one, f"{len(columns[0])}", *(f"{fmean(column):.3f}" for column in columns)]


def by_system(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """The answers of each system, in the order the systems came."""
    found: dict[str, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.system, []).append(answer)
    return found
