"""The written pairs of statements, of which one may correct the other."""

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def pairs(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return found
