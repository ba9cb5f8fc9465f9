"""Settings from flat keywords: `nested(context__k=3)` is `context=ContextSettings(k=3)`."""

from collections import defaultdict
from typing import Any

from langmem_graph import Settings


def nested(**flat: Any) -> Settings:
    """Settings from `group__name` keywords and from names of `Settings` itself."""
    given: dict[str, Any] = defaultdict(dict)
    for name, value in flat.items():
        group, _, field = name.rpartition("__")
        (given[group] if group else given)[field] = value
    return Settings.model_validate(given)
