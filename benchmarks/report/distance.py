"""How far back the evidence of a question lies, in quarters of the history
(Mem2ActBench 5.2).
"""

from collections.abc import Callable

from benchmarks.data.items import Conversation, DataSet, Question
from benchmarks.log import Row

TITLE = "Where the earliest evidence lies in the history"
QUARTERS = ("0–25% (oldest)", "25–50%", "50–75%", "75–100%")


def quarters(data: DataSet) -> Callable[[Row], str]:
    """The quarter of the question behind a row; empty where no evidence is in
    memory.
    """
    found = {
        (t.name, q.id): quarter(t, q) for t in data.conversations for q in t.questions
    }
    return lambda row: found[row["conversation"], row["question"]]


def quarter(talk: Conversation, question: Question) -> str:
    """By the place of the earliest gold message among those in memory when it
    is asked.
    """
    held = [
        {str(message["id"]), session.session_id}
        for session in talk.sessions[: question.before]
        for message in session.messages
    ]
    first = next((place for place, ids in enumerate(held) if ids & question.gold), None)
    return "" if first is None else QUARTERS[first * len(QUARTERS) // len(held)]
