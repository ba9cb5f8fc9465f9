"""Fits the ranking's weights and shows what they, and the round ones that ship, reach
held out.

Run from the repository root: `python -m benchmarks.fit_ranking --data DIR`. It asks the
library for all candidates of every question with their signals (`explain=True`), then
learns weights on all conversations but one and ranks the one left out, for each in
turn; and leaves each signal out of the round weights.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax

from benchmarks import common
from benchmarks.data import LOADERS
from benchmarks.data.items import BenchDataError, Conversation
from benchmarks.job import limited
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.results import SearchBy
from langmem_graph.retrieval.ranking import MESSAGE_WEIGHTS, SESSION_WEIGHTS
from langmem_graph.schemas import MessageHit

Vector = NDArray[np.float64]
ALL_CANDIDATES = 5_000
RIDGE = 1.0  # on standardised signals; 0.1 to 10 give the same recall
CUT = 10


@dataclass(frozen=True)
class Case:
    """One question: the candidates' signals (candidates x signals), which are gold, how
    many.
    """

    conversation: str
    signals: Vector
    is_gold: NDArray[np.bool_]
    gold: int

    def recall(self, weights: Vector) -> float:
        """Share of the gold among the first ten by these weights."""
        best = np.argsort(-(self.signals @ weights), kind="stable")[:CUT]
        return float(self.is_gold[best].sum() / self.gold)


def main() -> int:
    """Fit on what data there is; 1 when there is none."""
    made = common.parser(__doc__)
    common.add_data_argument(made)
    options = made.parse_args()
    embeddings = cached(MiniLMEmbeddings(), options.output / "vectors.sqlite")
    sections = [
        section
        for name, data in _data_sets(options.data).items()
        for section in _fitted(name, data, embeddings)
    ]
    embeddings.close()
    common.save(options.output, "fit_ranking.md", "\n".join(sections))
    return 0 if sections else 1


def _data_sets(data: Path) -> dict[str, Path]:
    """Four kinds of conversation; the talks written for this project are in it."""
    names = dict.fromkeys(("locomo", "beam", "realmem"), data)
    return names | {"chats": common.REPOSITORY / "benchmarks" / "sets"}


def _fitted(name: str, data: Path, embeddings: Embeddings) -> Iterator[str]:
    try:
        found = limited(LOADERS[name](data), None, with_gold=True)
    except BenchDataError as error:
        common.console.print(f"Skipped. {error}")
        return
    shipped = MESSAGE_WEIGHTS if found.by == "message" else SESSION_WEIGHTS
    names = list(shipped)
    cases = [
        c
        for talk in found.conversations
        for c in _cases(talk, names, found.by, embeddings)
    ]
    yield _report(found.title, cases, shipped)


def _cases(
    talk: Conversation, names: Sequence[str], by: SearchBy, embeddings: Embeddings
) -> Iterator[Case]:
    """Replays one conversation and keeps every question's candidates."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder, embeddings=embeddings) as memory,
    ):
        user = memory.user(talk.name)
        for questions, session in talk.steps():
            for question in questions:
                yield _case(user, talk.name, question.text, question.gold, names, by)
            if session is not None:
                user.add(session.messages, session_id=session.session_id)


def _case(
    user: UserMemory,
    talk: str,
    text: str,
    gold: frozenset[str],
    names: Sequence[str],
    by: SearchBy,
) -> Case:
    hits = user.search_conversation(text, ALL_CANDIDATES, by, explain=True)
    signals = np.array([_signals(hit, names) for hit in hits]).reshape(
        len(hits), len(names)
    )
    found = [hit.message_id if by == "message" else hit.session_id for hit in hits]
    return Case(
        talk, signals, np.array([one in gold for one in found], dtype=bool), len(gold)
    )


def _signals(hit: MessageHit, names: Sequence[str]) -> list[float]:
    assert hit.signals is not None
    return [hit.signals[name] for name in names]


def fit(cases: Sequence[Case]) -> Vector:
    """Weights by listwise softmax: each gold item against all that are not gold."""
    spread = np.concatenate([case.signals for case in cases]).std(axis=0) + 1e-9
    useful = [
        (c.signals / spread, c.is_gold)
        for c in cases
        if 0 < c.is_gold.sum() < len(c.is_gold)
    ]

    def loss(weights: Vector) -> tuple[float, Vector]:
        parts = [_loss(signals, gold, weights) for signals, gold in useful]
        value = sum(part[0] for part in parts) + RIDGE * float(weights @ weights)
        return value, np.sum([part[1] for part in parts], axis=0) + 2 * RIDGE * weights

    answer = minimize(loss, np.zeros(len(spread)), jac=True, method="L-BFGS-B")
    return np.asarray(answer.x / spread)


def _loss(
    signals: Vector, gold: NDArray[np.bool_], weights: Vector
) -> tuple[float, Vector]:
    """The loss of one question and its gradient."""
    scores = signals @ weights
    others = signals[~gold]
    # how far the others are ahead of each gold
    behind = logsumexp(scores[~gold]) - scores[gold]
    pull = expit(behind) / len(behind)
    towards = softmax(scores[~gold]) @ others
    return float(np.logaddexp(0, behind).mean()), pull.sum() * towards - pull @ signals[
        gold
    ]


def held_out(cases: Sequence[Case], keep: Sequence[int]) -> dict[str, list[float]]:
    """Recall per conversation by weights learned on the others, using only some
    signals.
    """
    columns = list(keep)
    some = [
        Case(c.conversation, c.signals[:, columns], c.is_gold, c.gold) for c in cases
    ]
    return {
        name: _recalls(some, name, fit([c for c in some if c.conversation != name]))
        for name in dict.fromkeys(c.conversation for c in cases)
    }


def _recalls(cases: Sequence[Case], name: str, weights: Vector) -> list[float]:
    return [case.recall(weights) for case in cases if case.conversation == name]


def _report(title: str, cases: Sequence[Case], shipped: dict[str, float]) -> str:
    names, everything = list(shipped), range(len(shipped))
    round_weights = np.array(list(shipped.values()))
    talks = list(dict.fromkeys(case.conversation for case in cases))
    rows = [
        _row(
            "round weights, as shipped",
            {t: _recalls(cases, t, round_weights) for t in talks},
        ),
        _row("fitted, held out", held_out(cases, everything)),
    ]
    for out in everything:
        without = round_weights.copy()
        without[out] = 0.0
        recalls = {t: _recalls(cases, t, without) for t in talks}
        rows.append(_row(f"round weights without {names[out]}", recalls))
    fitted = fit(cases)
    weights = [
        [n, f"{shipped[n]:g}", f"{w:.2f}"] for n, w in zip(names, fitted, strict=True)
    ]
    return "\n\n".join(
        [
            f"## {title}: recall@{CUT}, {len(cases)} questions",
            common.table(["weights", *talks, "mean of these", "all"], rows),
            common.table(["signal", "shipped", "fitted on all"], weights),
            "",
        ]
    )


def _row(label: str, recalls: dict[str, list[float]]) -> list[str]:
    every = [recall for some in recalls.values() for recall in some]
    means = [float(np.mean(some)) for some in recalls.values()]
    return [
        label,
        *(f"{mean:.3f}" for mean in (*means, np.mean(means), np.mean(every))),
    ]


if __name__ == "__main__":
    sys.exit(main())
