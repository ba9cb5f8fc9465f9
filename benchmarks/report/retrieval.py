"""The tables of retrieval: no model was called."""

from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.common import table
from benchmarks.data.items import DataSet
from benchmarks.data.locomo import ADVERSARIAL
from benchmarks.log import Row
from benchmarks.metrics import ranking
from benchmarks.report import distance
from benchmarks.report.figures import (
    breakdown,
    by_system,
    interval,
    mean,
    mean_of_means,
)

MAIN_CUT = 10
_MEASURES = {
    "any": ranking.recall_any,
    "all": ranking.recall_all,
    "NDCG": ranking.ndcg,
    "NDCG as scripted": ranking.ndcg_realmem,
}


def recall_at(row: Row, k: int = MAIN_CUT) -> float:
    """The fraction of a question's gold in the first `k`."""
    return ranking.recall(row["found"], row["gold"], k)


def retrieval_tables(
    data: DataSet, rows: Sequence[Row], names: Sequence[str]
) -> list[str]:
    """All tables; questions without gold are counted, and are in none."""
    scored = [row for row in rows if row["gold"]]
    systems = by_system(scored, names)
    count = max(map(len, systems.values()), default=0)
    parts = [
        f"## {data.title}: {count:,} questions with gold\n",
        _overall(systems, data.cuts),
    ]
    parts += ["", _other_measures(systems, data.cuts)]
    parts += _paired(systems)
    if data.name == "locomo":
        parts += _without_adversarial(systems)
    if data.name == "realmem" and data.by == "message":
        parts += _by_session(data, systems)
    measured = f"recall@{MAIN_CUT}"
    parts += breakdown(
        "Category", systems, lambda row: row["category"], recall_at, measured
    )
    parts += breakdown(
        "Question kind", systems, lambda row: row["kind"], recall_at, measured
    )
    parts += breakdown(
        "Whose words the gold is", systems, _roles(data), recall_at, measured
    )
    parts += breakdown(
        distance.TITLE, systems, distance.quarters(data), recall_at, measured
    )
    if len(data.conversations) <= 30:
        parts += breakdown(
            "Conversation",
            systems,
            lambda row: row["conversation"],
            recall_at,
            measured,
        )
    return parts


def _by_session(data: DataSet, systems: dict[str, list[Row]]) -> list[str]:
    """Where entries were searched for: as the paper counts, by the sessions they are
    from.
    """
    held = {
        (talk.name, str(one["id"])): session.session_id
        for talk in data.conversations
        for session in talk.sessions
        for one in session.messages
    }

    def sessions(row: Row, name: str) -> list[str]:
        return list(dict.fromkeys(held[row["conversation"], one] for one in row[name]))

    by_session = {
        name: [
            {**row, "found": sessions(row, "found"), "gold": sessions(row, "gold")}
            for row in own
        ]
        for name, own in systems.items()
    }
    title = (
        f"\nThe sessions of the first {max(data.cuts)} entries, each where its "
        "best one stands:\n"
    )
    return [
        title,
        _overall(by_session, data.cuts),
        "",
        _other_measures(by_session, data.cuts),
    ]


def _overall(systems: dict[str, list[Row]], cuts: Sequence[int]) -> str:
    """Recall is the fraction of gold found, mean over questions."""
    header = ["system", *(f"recall@{k}" for k in cuts), f"95% interval @{MAIN_CUT}"]
    header += ["mean of conversations", "ms a search"]
    lines = []
    for name, own in systems.items():
        recalls = [mean([recall_at(row, k) for row in own]) for k in cuts]
        values = [f"{one:.3f}" for one in recalls] + [
            interval([recall_at(row) for row in own])
        ]
        seconds = mean([row["seconds"] for row in own])
        values += [f"{mean_of_means(own, recall_at):.3f}", f"{seconds * 1_000:.1f}"]
        lines.append([name, *values])
    return table(header, lines)


def _other_measures(systems: dict[str, list[Row]], cuts: Sequence[int]) -> str:
    shown = [k for k in cuts if k > 1]
    columns = [(name, measure, k) for name, measure in _MEASURES.items() for k in shown]
    header = ["system", *(f"{name}@{k}" for name, _, k in columns)]
    lines = [
        [
            name,
            *(
                f"{mean([m(row['found'], row['gold'], k) for row in own]):.3f}"
                for _, m, k in columns
            ),
        ]
        for name, own in systems.items()
    ]
    return table(header, lines)


def _paired(systems: dict[str, list[Row]]) -> list[str]:
    """How much more of each question's gold the first system finds than the others."""
    if len(systems) < 2:
        return []
    first, *others = systems
    asked = {_asked(row): recall_at(row) for row in systems[first]}
    lines = []
    for name in others:
        other = {_asked(row): recall_at(row) for row in systems[name]}
        more = [asked[one] - other[one] for one in asked.keys() & other.keys()]
        lines.append([name, str(len(more)), f"{mean(more):+.3f}", interval(more)])
    header = ["than", "questions", f"recall@{MAIN_CUT} more", "95% interval"]
    return [f"\n{first} beside the others, paired:\n", table(header, lines)] * bool(
        lines
    )


def _asked(row: Row) -> tuple[str, str]:
    return row["conversation"], row["question"]


def _roles(data: DataSet) -> Callable[[Row], str]:
    """By whom a question's gold was said."""
    said = {
        (talk.name, str(message["id"])): str(message["role"])
        for talk in data.conversations
        for session in talk.sessions
        for message in session.messages
    }

    def roles(row: Row) -> str:
        talk = row["conversation"]
        found = {said[talk, one] for one in row["gold"] if (talk, one) in said}
        return " and ".join(sorted(found))

    return roles


def _without_adversarial(systems: dict[str, list[Row]]) -> list[str]:
    kept = {
        name: [row for row in own if row["category"] != ADVERSARIAL]
        for name, own in systems.items()
    }
    at = partial(recall_at, k=MAIN_CUT)
    lines = [
        [name, str(len(own)), f"{mean([at(r) for r in own]):.3f}"]
        for name, own in kept.items()
    ]
    header = ["system", "questions", f"recall@{MAIN_CUT}"]
    return ["\nWithout category 5 (adversarial):\n", table(header, lines)]
