"""One JSON line for each item of a run, so that a stopped run is continued.

Rows: `asked` (a question put to a system), `begun` (a session that is now given to the
systems), `added` (a session given to a system), `size` (its bytes in the end).
"""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]
_KEYS = {
    "asked": ("system", "conversation", "question"),
    "begun": ("conversation", "place"),
    "added": ("system", "conversation", "place"),
    "size": ("system", "conversation"),
}


class Log:
    """The lines of one run, in memory and in a file.

    Args:
        file: made when missing; a line that was cut off by a crash is ignored.
        retry: forget the questions whose answer or judgement failed with these systems.
    """

    def __init__(self, file: Path, *, retry: Collection[str] = ()) -> None:
        self.file = file
        self._rows: dict[tuple[str, ...], Row] = {}
        for row in _read(file):
            again = row["row"] == "asked" and row["system"] in retry
            if not (again and row["failures"]):
                self._rows.setdefault(_key(row), row)
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")  # a crash on the way leaves the old one whole
        with new.open("w", encoding="ascii") as lines:
            lines.writelines(map(_line, self._rows.values()))
        new.replace(file)

    def add(self, row: Row) -> None:
        """Keep a row unless there is one for the same thing."""
        key = _key(row)
        if key not in self._rows:
            self._rows[key] = row
            with self.file.open("a", encoding="ascii") as lines:
                lines.write(_line(row))

    def has(self, kind: str, *key: str) -> bool:
        """Whether there is a row for it."""
        return (kind, *key) in self._rows

    def rows(self, kind: str) -> list[Row]:
        """All rows of a kind, in the order they came."""
        return [row for (own, *_), row in self._rows.items() if own == kind]


def _key(row: Row) -> tuple[str, ...]:
    return (row["row"], *(str(row[name]) for name in _KEYS[row["row"]]))


def _line(row: Row) -> str:
    """ASCII, so that no sign in a text ends a line or cannot be written."""
    return json.dumps(row) + "\n"


def _read(file: Path) -> Iterator[Row]:
    if not file.exists():
        return
    with file.open("rb") as lines:
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and row.get("row") in _KEYS:
                yield row
