"""The tables of answers: scores and failures, tool calls slot by slot, how memory was
navigated.

The figures of navigation are NapMem's.
"""

from collections.abc import Sequence
from functools import partial

from benchmarks.common import table
from benchmarks.data.general import CATEGORY as GENERAL
from benchmarks.data.items import Conversation, DataSet, Question
from benchmarks.data.locomo import ADVERSARIAL
from benchmarks.log import Row
from benchmarks.metrics import tool_calls as calls
from benchmarks.metrics.tool_calls import ToolTask
from benchmarks.report import distance
from benchmarks.report.figures import (
    breakdown,
    by_system,
    interval,
    mean,
    mean_of_means,
    measured_of,
)
from langmem_graph.navigation.actions import Navigation, QuestionItem
from langmem_graph.navigation.reward import navigation_metrics

MEASURES = {
    "score": "score",
    "f1": "F1",
    "bleu1": "BLEU-1",
    "qa_0_to_3": "QA 0–3",
    "memory_recall": "memory recall",
    "memory_helpful": "memory helpful",
    "paper_qa_0_to_3": "QA 0–3, paper's rubric",
    "paper_memory_recall": "memory recall, paper's",
    "paper_memory_helpful": "memory helpful, paper's",
}
"""What answers are scored by, and how tables call it; the first that there is leads."""
_NAVIGATION_TITLES = {
    "items": "questions",
    "answered": "answered",
    "tool_calls": "calls",
    "turns": "turns",
    "multi_level": "several layers",
    "evidence_hit": "calls that hit evidence",
    "evidence_recall": "evidence shown",
    "unneeded_calls": "needless calls",
    "tokens": "tokens",
}


def lead(rows: Sequence[Row]) -> str | None:
    """The measure that tables lead with: the score, or what there is without a
    judge.
    """
    return next(
        (name for name in MEASURES if any(name in row["scores"] for row in rows)), None
    )


def scored(name: str | None, row: Row) -> float | None:
    """A measure of one answer; None where the question does not have it."""
    value = row["scores"].get(name)
    return None if value is None else float(value)


def lead_title(rows: Sequence[Row]) -> str:
    """How tables call it."""
    return MEASURES.get(lead(rows) or "", "")


def answer_tables(
    data: DataSet, rows: Sequence[Row], names: Sequence[str]
) -> list[str]:
    """All tables of one data set."""
    systems = by_system([row for row in rows if row["category"] != GENERAL], names)
    count = max(map(len, systems.values()), default=0)
    parts = [f"## {data.title}: {count:,} questions answered\n"]
    navigation = [*edges_table(systems), *navigation_table(data, rows, names)]
    if data.task == "tool":
        return parts + tool_tables(data, systems)
    parts.append(_overall(systems))
    if data.name == "locomo":
        kept = {
            name: [row for row in own if row["category"] != ADVERSARIAL]
            for name, own in systems.items()
        }
        parts += ["\nWithout category 5 (adversarial):\n", _overall(kept)]
    if data.task == "scale":
        parts += ["\nShare of replies by score:\n", _shares(systems)]
    first = lead(rows)
    for title, label in (
        (("Category", "category"), ("Question kind", "kind")) if first else ()
    ):
        name = partial(_label, label)
        parts += breakdown(
            title, systems, name, partial(scored, first), lead_title(rows)
        )
    if first:
        quarters = distance.quarters(data)
        parts += breakdown(
            distance.TITLE, systems, quarters, partial(scored, first), lead_title(rows)
        )
    return parts + navigation


def _label(kind: str, row: Row) -> str:
    return str(row[kind])


def _overall(systems: dict[str, list[Row]]) -> str:
    """A measure that a question does not have is not counted for it; a failure is 0."""
    every = [row for own in systems.values() for row in own]
    shown = [name for name in MEASURES if any(name in row["scores"] for row in every)]
    header = ["system", *(MEASURES[name] for name in shown)]
    header += ["95% interval", "mean of conversations"] if shown else []
    header += ["answers failed", "judgements failed", "memory failed"]
    lines = []
    for name, own in systems.items():
        found = [measured_of(own, partial(scored, one)) for one in shown]
        values = [f"{mean(one):.3f}" for one in found]
        if shown:
            middle = mean_of_means(own, partial(scored, shown[0]))
            values += [interval(found[0]), f"{middle:.3f}"]
        values += failed(own)
        lines.append([name, *values])
    return table(header, lines)


def failed(own: Sequence[Row]) -> list[str]:
    """How many answers and how many judgements failed, and how often memory's own
    reasoning did.
    """
    kinds = [one.split(":")[0] for row in own for one in row["failures"]]
    answers = kinds.count("answer") + kinds.count("system")
    return [str(answers), str(kinds.count("judge")), str(kinds.count("memory"))]


def _shares(systems: dict[str, list[Row]]) -> str:
    lines = []
    for name, own in systems.items():
        given = [row["scores"].get("qa_0_to_3", 0.0) for row in own]
        lines.append(
            [name, *(f"{mean([one == n for one in given]):.3f}" for n in range(4))]
        )
    return table(["system", "0 (contradicts)", "1", "2", "3 (uses all)"], lines)


def edges_table(systems: dict[str, list[Row]]) -> list[str]:
    """How dense the graph of each system was, and what it brought; empty where nobody
    tells.
    """
    lines = []
    for name, own in systems.items():
        found = [graph for row in own if (graph := row["reply"].get("graph"))]
        values = [
            f"{mean([one[key] for one in found]):.2f}" for key in ("degree", "facts")
        ]
        lines += [[name, *values]] if found else []
    title = (
        "\nSemantic edges of a record, and facts that edges brought to a question:\n"
    )
    return [title, table(["system", "degree", "facts"], lines)] if lines else []


# --- tool calls
# ----------------------------------------------------------------------------------


def tool_tables(data: DataSet, systems: dict[str, list[Row]]) -> list[str]:
    """Calls, slots by type and by complexity, and why slots are wrong."""
    asked = {(t.name, q.id): q for t in data.conversations for q in t.questions}
    tasks = {
        name: [
            tool_task(row, asked[row["conversation"], row["question"]]) for row in own
        ]
        for name, own in systems.items()
    }
    figures = {name: calls.summary(own) for name, own in tasks.items()}
    header = [
        "system",
        *next(iter(figures.values()), {}),
        "calls failed",
        "95% interval, value F1",
    ]
    lines = [
        [
            name,
            *(f"{value:.3f}" for value in own.values()),
            failed(systems[name])[0],
            interval([calls.task_f1(one) for one in tasks[name]]),
        ]
        for name, own in figures.items()
    ]
    parts = [table(header, lines)]
    for title, label in (
        ("type", lambda slot: slot.type),
        ("complexity", calls.complexity),
    ):
        parts += [f"\nSlot accuracy by {title} (slots):\n", _slots(tasks, label)]
    quarters = distance.quarters(data)
    parts += breakdown(
        distance.TITLE,
        systems,
        quarters,
        lambda row: calls.task_f1(
            tool_task(row, asked[row["conversation"], row["question"]])
        ),
        "value F1",
    )
    rates = {name: calls.error_rates(own) for name, own in tasks.items()}
    lines = [
        [name, *(f"{own[kind]:.3f}" for kind in calls.ERROR_CLASSES)]
        for name, own in rates.items()
    ]
    parts += ["\nWhy slots are wrong, as a rate over all gold slots:\n"]
    parts.append(table(["system", *calls.ERROR_CLASSES], lines))
    present = {
        name: [r for r in own if r["kind"] == "evidence present"]
        for name, own in systems.items()
    }
    counted = max(map(len, present.values()), default=0)
    if 0 < counted < max(map(len, systems.values())):
        parts += _present(present, asked, counted)
    return parts


def _present(
    systems: dict[str, list[Row]], asked: dict[tuple[str, str], Question], count: int
) -> list[str]:
    lines = []
    for name, own in systems.items():
        tasks = [
            tool_task(row, asked[row["conversation"], row["question"]]) for row in own
        ]
        found = calls.summary(tasks)
        lines.append([name, f"{found['value_f1']:.3f}", f"{found['exact_match']:.3f}"])
    title = f"\nOnly the {count:,} tasks whose sources are in the session file:\n"
    return [title, table(["system", "value_f1", "exact_match"], lines)]


def _slots(tasks: dict[str, list[ToolTask]], label: calls.SlotLabel) -> str:
    found = {name: calls.slot_accuracy(own, label) for name, own in tasks.items()}
    kinds = sorted({kind for own in found.values() for kind in own})
    lines = [
        [name, *(f"{own[k][0]:.3f} ({own[k][1]})" if k in own else "–" for k in kinds)]
        for name, own in found.items()
    ]
    return table(["system", *kinds], lines)


def tool_task(row: Row, question: Question) -> ToolTask:
    """What the measures take, from a logged answer."""
    assert question.goal is not None
    reply = row["reply"]
    return ToolTask(
        question.goal.name,
        question.goal.slots,
        reply["tool"],
        reply["arguments"],
        tuple(reply["shown"]),
        frozenset(reply["shown_ids"]),
        question.goal.absent,
    )


# --- navigation
# ----------------------------------------------------------------------------------


def navigation_table(
    data: DataSet, rows: Sequence[Row], names: Sequence[str]
) -> list[str]:
    """One line for each system that navigated; empty where none did."""
    asked = {(t.name, q.id): (t, q) for t in data.conversations for q in t.questions}
    lines = []
    for name, own in by_system(rows, names).items():
        done = [row for row in own if row["reply"].get("navigation")]
        found = [Navigation.model_validate(row["reply"]["navigation"]) for row in done]
        if found:
            pairs = [asked[row["conversation"], row["question"]] for row in done]
            if data.by == "session":
                walks = zip(pairs, found, strict=True)
                found = [_by_session(talk, of) for (talk, _), of in walks]
            gold = [
                _item(question, of)
                for (_, question), of in zip(pairs, found, strict=True)
            ]
            figures = navigation_metrics(found, gold).model_dump()
            lines.append([name, *(_shown(figures[one]) for one in _NAVIGATION_TITLES)])
    if not lines:
        return []
    title = (
        "\nHow memory was navigated (needless: of the questions that need no memory):\n"
    )
    return [title, table(["system", *_NAVIGATION_TITLES.values()], lines)]


def _item(question: Question, done: Navigation) -> QuestionItem:
    return QuestionItem(
        user_id=done.user_id,
        question=done.question,
        evidence=sorted(question.gold),
        needs_memory=question.category != GENERAL,
    )


def _by_session(talk: Conversation, done: Navigation) -> Navigation:
    """Where the gold are sessions, a message that was shown stands for its session."""
    held = {
        str(m.get("id")): one.session_id for one in talk.sessions for m in one.messages
    }
    uses = [
        use.model_copy(
            update={
                "message_ids": [held[id_] for id_ in use.message_ids if id_ in held]
            }
        )
        for use in done.tool_calls
    ]
    return done.model_copy(update={"tool_calls": uses})


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
