"""LongMemEval: 500 questions, each with its own haystack of sessions, gold by session."""

from pathlib import Path
from typing import Any

from langmem_graph.bench.data.files import find, only
from langmem_graph.bench.data.haystacks import load_haystacks
from langmem_graph.bench.items import DataSet

_WANTED = "longmemeval_s.json, _m.json or _oracle.json (github.com/xiaowu0162/LongMemEval, MIT)"
RULES = {
    "temporal-reasoning": "temporal",
    "knowledge-update": "update",
    "single-session-preference": "preference",
}
_NOTES = (
    "Questions whose id ends in `_abs` cannot be answered from the sessions: only saying so is "
    "right, and they have no place in the retrieval figures.",
)


def load_longmemeval(data: Path) -> DataSet:
    """A file of questions, or a folder with one."""
    files = only(find(data, "longmemeval", "longmemeval*.json", _WANTED))
    conversations = load_haystacks("LongMemEval", files, _rule)
    cuts = (5, 10, 20)
    title = "LongMemEval"
    return DataSet("longmemeval", title, "session", cuts, "judged", conversations, files, _NOTES)


def _rule(row: dict[str, Any]) -> str:
    if str(row.get("question_id", "")).endswith("_abs"):
        return "abstain"
    return RULES.get(str(row.get("question_type")), "answer")
