"""Long-term memory for LangGraph agents that acts, not only recalls.

Start with `Memory`. Everything named here is public; modules below are reached through
it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langmem_graph.errors import LangMemGraphError, TokenCountWarning
    from langmem_graph.memory import Memory, UserMemory
    from langmem_graph.middleware import MemoryMiddleware
    from langmem_graph.reading import Reading, TypedRecord
    from langmem_graph.reports import (
        AddReport,
        ExpiryReport,
        FlushForecast,
        FlushProgress,
        FlushReport,
        ForgetReport,
        Health,
        HistoryEntry,
        ModelCall,
        RecordsReport,
    )
    from langmem_graph.results import (
        Conflict,
        Fact,
        GroundedCall,
        Grounding,
        MissingSlot,
        Reasoning,
        Recall,
        Risk,
    )
    from langmem_graph.schemas import (
        Label,
        Message,
        MessageHit,
        Record,
        RecordChange,
        RecordHit,
    )
    from langmem_graph.settings import (
        ContextSettings,
        ExtractionSettings,
        KeepDays,
        RankingSettings,
        ReasoningSettings,
        Settings,
        StorageSettings,
    )
    from langmem_graph.store.chroma_store import ChromaStore

__version__ = "0.1.0"

__all__ = [
    "AddReport",
    "ChromaStore",
    "Conflict",
    "ContextSettings",
    "ExpiryReport",
    "ExtractionSettings",
    "Fact",
    "FlushForecast",
    "FlushProgress",
    "FlushReport",
    "ForgetReport",
    "GroundedCall",
    "Grounding",
    "Health",
    "HistoryEntry",
    "KeepDays",
    "Label",
    "LangMemGraphError",
    "Memory",
    "MemoryMiddleware",
    "Message",
    "MessageHit",
    "MissingSlot",
    "ModelCall",
    "RankingSettings",
    "Reading",
    "Reasoning",
    "ReasoningSettings",
    "Recall",
    "Record",
    "RecordChange",
    "RecordHit",
    "RecordsReport",
    "Risk",
    "Settings",
    "StorageSettings",
    "TokenCountWarning",
    "TypedRecord",
    "UserMemory",
]


_HOMES = (
    "errors",
    "settings",
    "schemas",
    "results",
    "reports",
    "reading",
    "memory",
)  # fast imports come first
_OTHER_HOMES = {"ChromaStore": "store", "MemoryMiddleware": "middleware"}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing the package
    stays fast.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = (_OTHER_HOMES[name],) if name in _OTHER_HOMES else _HOMES
    modules = (import_module(f"{__name__}.{home}") for home in homes)
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def __dir__() -> list[str]:
    return __all__
