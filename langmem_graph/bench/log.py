"""log: one JSON line for each item of a run, so that a stopped run is continued.

Rows: `asked` (a question put to a system), `added` (a session given to a system), `size` (its bytes
in the end).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_KEYS = {
    "asked": ("system", "conversation", "question"),
    "added": ("system", "conversation", "session"),
    "size": ("system", "conversation"),
}


class Log:
    """The lines of one run, in memory and in a file.

    Args:
        file: made when missing; a line that was cut off by a crash is ignored.
        retry: forget the questions whose answer or judgement failed.
    """

    def __init__(self, file: Path, *, retry: bool = False) -> None:
        self.file = file
        self._rows: dict[tuple[str, ...], Row] = {}
        for row in _read(file):
            if not (retry and row.get("failures")):
                self._rows.setdefault(_key(row), row)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in self._rows.values()]
        file.write_text("".join(lines), encoding="utf-8")

    def add(self, row: Row) -> None:
        """Keep a row unless there is one for the same thing."""
        key = _key(row)
        if key not in self._rows:
            self._rows[key] = row
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(row, ensure_ascii=False) + "\n")

    def has(self, kind: str, *key: str) -> bool:
        """Whether there is a row for it."""
        return (kind, *key) in self._rows

    def rows(self, kind: str) -> list[Row]:
        """All rows of a kind, in the order they came."""
        return [row for (own, *_), row in self._rows.items() if own == kind]


def _key(row: Row) -> tuple[str, ...]:
    return (row["row"], *(str(row[name]) for name in _KEYS[row["row"]]))


def _read(file: Path) -> Iterator[Row]:
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("row") in _KEYS:
            yield row
