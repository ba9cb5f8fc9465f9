"""LongMemEval and ActMemEval, which share a layout: every question brings its own
sessions.

Gold are sessions. LongMemEval has 500 questions; ActMemEval has requests that earlier
sessions speak against. ActMemEval's layout is taken from public code that reads the
file; the file itself could not be read here.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dateutil import parser

from benchmarks.data.files import find, in_layout, only, read_all
from benchmarks.data.items import Conversation, DataSet, Question, Session

_WEEKDAY = re.compile(r"\((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\)")
Rule = Callable[[dict[str, Any]], str]
_LONGMEMEVAL = (
    "longmemeval_s.json, _m.json or _oracle.json "
    "(github.com/xiaowu0162/LongMemEval, MIT)"
)
RULES = {
    "temporal-reasoning": "temporal",
    "knowledge-update": "update",
    "single-session-preference": "preference",
}
_LONGMEMEVAL_NOTES = (
    "Questions whose id ends in `_abs` cannot be answered from the sessions: only "
    "saying so is "
    "right, and they have no place in the retrieval figures.",
)
_ACTMEMEVAL = (
    "ActMemEval.json of ActMem's authors (arXiv 2603.00026, "
    "github.com/xhzhangxx/ActMem)"
)
_ACTMEMEVAL_NOTES = (
    "Read as LongMemEval's layout (question, answer, haystack_sessions, "
    "answer_session_ids …), "
    "which public code for ActMemEval.json uses; not tested on the original file.",
    "The paper's retrieval accuracy counts facts; its facts are not in that layout, "
    "so here gold "
    "are sessions.",
)


def load_longmemeval(data: Path) -> DataSet:
    """A file of questions, or a folder with one."""
    files = only(find(data, "longmemeval", "longmemeval*.json", _LONGMEMEVAL))
    conversations = _conversations("LongMemEval", files, _rule)
    cuts = (5, 10, 20)
    title = "LongMemEval"
    return DataSet(
        "longmemeval",
        title,
        "session",
        cuts,
        "judged",
        conversations,
        files,
        _LONGMEMEVAL_NOTES,
    )


def load_actmemeval(data: Path) -> DataSet:
    """A JSON or JSONL file of requests, or a folder with one."""
    files = only(find(data, "actmemeval", "[Aa]ct[Mm]em[Ee]val*.json*", _ACTMEMEVAL))
    conversations = _conversations("ActMemEval", files, lambda row: "act")
    cuts = (5, 10, 20)
    title = "ActMemEval"
    return DataSet(
        "actmemeval",
        title,
        "session",
        cuts,
        "judged",
        conversations,
        files,
        _ACTMEMEVAL_NOTES,
    )


def _rule(row: dict[str, Any]) -> str:
    if str(row.get("question_id", "")).endswith("_abs"):
        return "abstain"
    return RULES.get(str(row.get("question_type")), "answer")


def _conversations(title: str, files: list[Path], rule: Rule) -> list[Conversation]:
    """One conversation for each question."""
    rows = list(enumerate(read_all(files), 1))
    return in_layout(
        title, files, lambda: [_conversation(row, n, rule) for n, row in rows]
    )


def _conversation(row: dict[str, Any], number: int, rule: Rule) -> Conversation:
    """Sessions are called by their place: gold ones of LongMemEval are `answer_…` in
    the file.
    """
    own = str(row.get("question_id") or number)
    talks = row["haystack_sessions"]
    names = row.get("haystack_session_ids") or [
        f"session_{n}" for n in range(1, len(talks) + 1)
    ]
    dates = row.get("haystack_dates") or [None] * len(talks)
    placed = list(zip(names, dates, talks, strict=True))
    # LongMemEval's are not always in order
    placed.sort(key=lambda one: when(one[1]) or "")
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
        Session(f"s{n}", _messages(f"s{n}", at, talk))
        for n, (_, at, talk) in enumerate(placed, 1)
    ]
    return Conversation(own, sessions, [question])


def _messages(
    session: str, at: str | None, turns: list[dict[str, Any]]
) -> list[dict[str, Any]]:
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
