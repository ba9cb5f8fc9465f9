"""Long-term memory for LangGraph agents that acts, not only recalls.

Start with `Memory`. Everything named here is public; modules below are reached through it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.errors import LangMemGraphError, TokenCountWarning
    from langmem_graph.memory import Memory, UserMemory
    from langmem_graph.middleware import MemoryMiddleware
    from langmem_graph.reports import AddReport, FlushReport, ForgetReport, Health, RecordsReport
    from langmem_graph.schemas import (
        Conflict,
        Fact,
        GroundedCall,
        Grounding,
        HistoryEntry,
        Message,
        MessageHit,
        MissingSlot,
        Reasoning,
        Recall,
        Record,
        RecordHit,
        Risk,
    )
    from langmem_graph.settings import Settings
    from langmem_graph.store.chroma_store import ChromaStore

__version__ = "0.1.0"

_HOMES = {  # loaded when first used: importing the package stays light
    "AddReport": "reports",
    "ChromaStore": "store",
    "Conflict": "schemas",
    "Fact": "schemas",
    "FlushReport": "reports",
    "ForgetReport": "reports",
    "GroundedCall": "schemas",
    "Grounding": "schemas",
    "Health": "reports",
    "HistoryEntry": "schemas",
    "LangMemGraphError": "errors",
    "Memory": "memory",
    "MemoryMiddleware": "middleware",
    "Message": "schemas",
    "MessageHit": "schemas",
    "MissingSlot": "schemas",
    "Reasoning": "schemas",
    "Recall": "schemas",
    "Record": "schemas",
    "RecordHit": "schemas",
    "RecordsReport": "reports",
    "Risk": "schemas",
    "Settings": "settings",
    "TokenCountWarning": "errors",
    "UserMemory": "memory",
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
