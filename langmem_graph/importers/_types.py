"""What every importer yields."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Conversation:
    """One session: dicts with `role`, `content` and, where known, `id`, `name`, `at`."""

    session_id: str
    messages: list[dict[str, Any]] = field(default_factory=list)
