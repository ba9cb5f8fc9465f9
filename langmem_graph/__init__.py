"""Long-term memory for LangGraph agents that acts, not only recalls.

Start with `Memory`. Everything named here is public; modules below are reached through it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.config import Settings
    from langmem_graph.errors import LangMemGraphError, TokenCountWarning
    from langmem_graph.lang_store import ChromaStore
    from langmem_graph.memory import Memory
    from langmem_graph.middleware import MemoryMiddleware
    from langmem_graph.models import (
        AddReport,
        Conflict,
        Fact,
        FlushReport,
        ForgetReport,
        GroundedCall,
        Grounding,
        Health,
        HistoryEntry,
        Message,
        MessageHit,
        MissingSlot,
        Reasoning,
        Recall,
        Record,
        RecordHit,
        RecordsReport,
        Risk,
    )
    from langmem_graph.user import UserMemory

__version__ = "0.1.0"

_HOMES = {  # loaded when first used: importing the package stays light
    "AddReport": "models",
    "ChromaStore": "lang_store",
    "Conflict": "models",
    "Fact": "models",
    "FlushReport": "models",
    "ForgetReport": "models",
    "GroundedCall": "models",
    "Grounding": "models",
    "Health": "models",
    "HistoryEntry": "models",
    "LangMemGraphError": "errors",
    "Memory": "memory",
    "MemoryMiddleware": "middleware",
    "Message": "models",
    "MessageHit": "models",
    "MissingSlot": "models",
    "Reasoning": "models",
    "Recall": "models",
    "Record": "models",
    "RecordHit": "models",
    "RecordsReport": "models",
    "Risk": "models",
    "Settings": "config",
    "TokenCountWarning": "errors",
    "UserMemory": "user",
}

__all__ = [
    "AddReport",
    "ChromaStore",
    "Conflict",
    "Fact",
    "FlushReport",
    "ForgetReport",
    "GroundedCall",
    "Grounding",
    "Health",
    "HistoryEntry",
    "LangMemGraphError",
    "Memory",
    "MemoryMiddleware",
    "Message",
    "MessageHit",
    "MissingSlot",
    "Reasoning",
    "Recall",
    "Record",
    "RecordHit",
    "RecordsReport",
    "Risk",
    "Settings",
    "TokenCountWarning",
    "UserMemory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'langmem_graph' has no attribute {name!r}")
    return getattr(import_module(f"langmem_graph.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
