"""Events of a schedule."""

from datetime import UTC, datetime
from typing import Any

from langmem_graph.schedule.times import EventTime

NOW = datetime(2025, 5, 5, 12, tzinfo=UTC)


def event(start: str, **more: Any) -> EventTime:
    return EventTime(start=start, **more)
