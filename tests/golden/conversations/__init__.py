"""The conversations, by name; each module adds its own."""

from tests.golden.conversations import (
    agents,
    changes,
    corrections,
    goals,
    grounding,
    languages,
    reading,
    recalling,
    schedules,
    topics,
    upkeep,
    variety,
)
from tests.golden.support import conversations

__all__ = [
    "agents",
    "changes",
    "conversations",
    "corrections",
    "goals",
    "grounding",
    "languages",
    "reading",
    "recalling",
    "schedules",
    "topics",
    "upkeep",
    "variety",
]
