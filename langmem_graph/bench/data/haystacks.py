"""The layout of LongMemEval and ActMemEval: every question brings its own sessions."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dateutil import parser

from langmem_graph.bench.data.files import in_layout, read_all
from langmem_graph.bench.items import Conversation, Question, Session

_WEEKDAY = re.compile(r"\((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\)")
Rule = Callable[[dict[str, Any]], str]


def load_haystacks(title: str, files: list[Path], rule: Rule) -> list[Conversation]:
    """One conversation for each question."""
    rows = list(enumerate(read_all(files), 1))
    return in_layout(title, files, lambda: [_conversation(row, n, rule) for n, row in rows])


def _conversation(row: dict[str, Any], number: int, rule: Rule) -> Conversation:
    """Sessions are called by their place: gold ones of LongMemEval are `answer_…` in the file."""
    own = str(row.get("question_id") or number)
    talks = row["haystack_sessions"]
    names = row.get("haystack_session_ids") or [f"session_{n}" for n in range(1, len(talks) + 1)]
    dates = row.get("haystack_dates") or [None] * len(talks)
    placed = list(zip(names, dates, talks, strict=True))
    placed.sort(key=lambda one: when(one[1]) or "")  # LongMemEval's are not always in order
    wanted = {str(one) for one in row.get("answer_session_ids") or ()}
    gold = {f"s{n}" for n, (name, _, _) in enumerate(placed, 1) if str(name) in wanted}
    applied = rule(row)
    question = Question(
        id=own,
        text=str(row["question"]),
        gold=frozenset() if applied == "abstain" else frozenset(gold),
        category=str(row.get("question_type") or row.get("category") or ""),
        at=when(row.get("question_date")),
        answer=str(row["answer"]),
        rule=applied,
    )
    sessions = [
        Session(f"s{n}", _messages(f"s{n}", at, talk)) for n, (_, at, talk) in enumerate(placed, 1)
    ]
    return Conversation(own, sessions, [question])


def _messages(session: str, at: str | None, turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{session}:{number}",
            "role": turn.get("role") or turn.get("speaker"),
            "content": str(turn.get("content") or turn.get("text") or ""),
            "at": when(at),
        }
        for number, turn in enumerate(turns, 1)
    ]


def when(text: str | None) -> str | None:
    """`2023/05/20 (Sat) 02:21` and other forms, as ISO text."""
    if not text:
        return None
    default = datetime(2000, 1, 1, tzinfo=UTC)
    return parser.parse(_WEEKDAY.sub(" ", text), default=default).isoformat()
