"""Appointments that are talked about, and a model that finds their times."""

from typing import Any

from langmem_graph.memory import Memory
from langmem_graph.results import Recall
from tests.support.models import AnswersBySchema

NOW = "2099-06-01T09:00"  # a Monday
ASKED = "Can we set the review for Tuesday 15:00?"
WARNING = "The schedule has something at that time"
NO_TIME: dict[str, Any] = {}


def noted(*rows: dict[str, Any]) -> dict[str, Any]:
    """What the model makes of one message."""
    base = {"facet": "schedule", "kind": "event", "sources": ["m1"]}
    return {"memories": [{**base, **row} for row in rows]}


def scripted_model(
    extracted: Any = None, time: Any = None, **more: Any
) -> AnswersBySchema:
    plan = (
        time
        if isinstance(time, str)
        else {"intent": "act", "sure": True, **(time or NO_TIME)}
    )
    return AnswersBySchema(Extraction=extracted or noted(), GoalPlan=plan, **more)


def warnings_of(found: Recall) -> list[str]:
    """The lines of the context that warn, each with the quote below it."""
    lines = found.context.splitlines()
    return [
        f"{line} | {lines[place + 1].strip()}"
        for place, line in enumerate(lines)
        if WARNING in line
    ]


DENTIST = {"text": "The user sees the dentist.", "when": "2099-06-02T15:30"}


def with_dentist(memory: Memory, user: str = "ana", **time: Any) -> Any:
    ana = memory.user(user)
    said = {
        "role": "user",
        "content": "I see the dentist.",
        "id": "m1",
        "at": "2099-05-01T10:00",
    }
    ana.add([said], session_id="s")
    row = {
        "text": "The user sees the dentist.",
        "source_message_ids": ["m1"],
        "facet": "schedule",
    }
    ana.add_records([{**row, "event_time": {"start": "2099-06-02T15:30", **time}}])
    return ana
