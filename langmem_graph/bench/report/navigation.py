"""The table of how a navigating reader used memory: NapMem's figures."""

from collections.abc import Sequence

from langmem_graph.bench.console import table
from langmem_graph.bench.data.general import CATEGORY
from langmem_graph.bench.items import Conversation, DataSet, Question
from langmem_graph.bench.log import Row
from langmem_graph.bench.report.figures import by_system
from langmem_graph.navigate import Navigation, QuestionItem, navigation_metrics

_TITLES = {
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


def navigation_table(data: DataSet, rows: Sequence[Row], names: Sequence[str]) -> list[str]:
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
            gold = [_item(question, of) for (_, question), of in zip(pairs, found, strict=True)]
            figures = navigation_metrics(found, gold).model_dump()
            lines.append([name, *(_shown(figures[one]) for one in _TITLES)])
    if not lines:
        return []
    title = "\nHow memory was navigated (needless: of the questions that need no memory):\n"
    return [title, table(["system", *_TITLES.values()], lines)]


def _item(question: Question, done: Navigation) -> QuestionItem:
    return QuestionItem(
        user_id=done.user_id,
        question=done.question,
        evidence=sorted(question.gold),
        needs_memory=question.category != CATEGORY,
    )


def _by_session(talk: Conversation, done: Navigation) -> Navigation:
    """Where the gold are sessions, a message that was shown stands for its session."""
    held = {str(m.get("id")): one.session_id for one in talk.sessions for m in one.messages}
    uses = [
        use.model_copy(
            update={"message_ids": [held[id_] for id_ in use.message_ids if id_ in held]}
        )
        for use in done.tool_calls
    ]
    return done.model_copy(update={"tool_calls": uses})


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    return str(value) if isinstance(value, int) else f"{value:.3f}"
