"""The words for times in nineteen languages: month names, and phrases as a tree.

`names.txt` is made by `tools/month_names.py`; `relative_words.txt` is written by hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from langmem_graph.moments.tokens import compared, tokens_of

FILES = ("relative_words.txt", "names.txt")
_TEXTS = [
    files(__package__).joinpath(name).read_text(encoding="utf-8") for name in FILES
]
"""Read with the module: at a later call a process may have no file descriptor left."""
NUMBER = "#"  # in a phrase: any number
_WEEKDAY = "@"
_EVERY_DAY = range(7)


class MonthName(NamedTuple):
    """A month by one of its names."""

    number: int
    is_english: bool
    is_short: bool


class Meaning(NamedTuple):
    """What a phrase means: `day -1`, `ago week`, `weekday 4`, `of -1` of a weekday."""

    kind: str
    value: str
    is_english: bool
    weekday: int = 0


@dataclass
class Node:
    """A place in the tree of phrases, and what the phrase means that ends there."""

    next: dict[str, "Node"] = field(default_factory=dict)
    meaning: Meaning | None = None


class _Row(NamedTuple):
    kind: str
    value: str
    name: str
    languages: frozenset[str]

    @property
    def is_english(self) -> bool:
        return "en" in self.languages


@cache
def months() -> dict[str, MonthName]:
    """The months by their names, full and short."""
    found = dict[str, MonthName]()
    for row in _rows():
        if row.kind in ("name", "short"):
            is_short = row.kind == "short"
            month = MonthName(int(row.value), row.is_english, is_short)
            found.setdefault(compared(row.name), month)
    return found


@cache
def numbers() -> dict[str, int]:
    """One to twelve by their names."""
    rows = [row for row in _rows() if row.kind == "number"]
    return {compared(row.name): int(row.value) for row in rows}


@cache
def phrases() -> Node:
    """The tree of all phrases, by the texts of their tokens."""
    root = Node()
    weekdays = _weekdays()
    for row in _rows():
        if row.kind in ("name", "short", "number"):
            continue
        for phrase, weekday in _spelled_out(row, weekdays):
            meaning = Meaning(row.kind, row.value, row.is_english, weekday)
            _plant(root, phrase, meaning)
    return root


def _weekdays() -> list[_Row]:
    return [row for row in _rows() if row.kind == "weekday"]


def _spelled_out(row: _Row, weekdays: list[_Row]) -> Iterator[tuple[str, int]]:
    """The phrase; where it holds a weekday, one for each name in its language."""
    if _WEEKDAY not in row.name:
        yield row.name, 0
        return
    for weekday in weekdays:
        if weekday.languages & row.languages:
            yield row.name.replace(_WEEKDAY, weekday.name), int(weekday.value)


def _plant(root: Node, phrase: str, meaning: Meaning) -> None:
    node = root
    for token in tokens_of(phrase):
        node = node.next.setdefault(token.text, Node())
    if node.meaning is None:
        node.meaning = meaning


@cache
def _rows() -> tuple[_Row, ...]:
    found = []
    for text in _TEXTS:
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        for line in lines:
            row, listed = line.split("\t")
            kind, value = row.split(" ")
            for entry in listed.split("|"):
                languages, _, phrase = entry.partition(":")
                own = frozenset(languages.split(","))
                found.append(_Row(kind, value, phrase, own))
    # a month's full name comes before the same word as a short one
    found.sort(key=lambda row: row.kind == "short")
    return tuple(found)
