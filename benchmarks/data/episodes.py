"""Lives in which something changes: this project's own form, and what MEME (arXiv
2605.12477) and STALE (arXiv 2605.06527) publish.
"""

from datetime import datetime
from typing import Any

Row = dict[str, Any]
_OF_MEME = {
    "Cascade-D": "cascade",
    "Cascade-U": "absence",
    "Multiple-update": "tracking",
    "Multi-hop": "aggregation",
    "Deletion": "forget",
    "Exact": "verbatim",
}
"""The kinds of facts by the beginnings of MEME's task types."""
_OF_STALE = {
    "outright": "dim1_query",
    "presupposing": "dim2_query",
    "task": "dim3_query",
}
"""STALE asks what holds, takes the old state for granted, and sets a task."""


def episodes_of(content: Any) -> list[Row]:
    """The episodes of a file: one, or a list, each in one of the three forms."""
    rows = content if isinstance(content, list) else [content]
    return [_episode(row) for row in rows]


def _episode(row: Row) -> Row:
    if "facts" in row:
        return row
    return _of_stale(row) if "haystack_session" in row else _of_meme(row)


def _of_meme(row: Row) -> Row:
    asked = next(iter(row["results"].values()))["after"]
    facts = [
        {
            "id": f"q{place}",
            "kind": _kind_of(one["task_type"]),
            "questions": {"outright": one["question"]},
            "right": str(one["gold_answer"]),
        }
        for place, one in enumerate(asked)
    ]
    sessions = [
        {"at": _time_of_meme(one["timestamp"]), "messages": one["conversation"]}
        for one in row["sessions"]
    ]
    about = {"id": row["episode"]["tag"], "language": "en"}
    return {**about, "sessions": sessions, "facts": facts}


def _kind_of(task: str) -> str:
    return next(kind for name, kind in _OF_MEME.items() if task.startswith(name))


def _time_of_meme(told: str) -> str:
    """`2023/03/01 (Wed) 09:00` in ISO 8601."""
    day, _, clock = told.split()
    return f"{day.replace('/', '-')}T{clock}:00"


def _of_stale(row: Row) -> Row:
    """One conflict: what followed from the new memory, asked in three ways."""
    sessions = [
        {"at": datetime.fromisoformat(at).isoformat(), "messages": messages}
        for at, messages in zip(row["timestamps"], row["haystack_session"], strict=True)
    ]
    asked = row["probing_queries"]
    fact = {
        "id": "c1",
        "kind": "cascade",
        "before": row["M_old"],
        "after": row["M_new"],
        "questions": {form: asked[name] for form, name in _OF_STALE.items()},
        "right": f"{row['explanation']} ({row['M_new']})",
        "wrong": f"As if this still held: {row['M_old']}",
    }
    return {
        "id": row["uid"],
        "language": "en",
        "sessions": sessions,
        "change": [row["relevant_session_index"][-1], 0],
        "facts": [fact],
    }
