"""Templates, and the small things they are made of: links, cut texts, marks, bars, a
graph.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from langmem_graph import __version__
from langmem_graph.inspector.visit import ROOM_IS_READ_ONLY, RoomName, Visit
from langmem_graph.reports import Edge, Neighbourhood
from langmem_graph.schemas import Record

SHOWN = 1_500  # characters of a text on a page with others
PAUSE = "\f"  # a text that is this alone only sends the page early
DONE = {
    "correct": "Corrected: this record holds now.",
    "undo": "Undone.",
    "forget": "Forgotten, with everything made of it.",
}


def link(page: str, **query: object) -> str:
    """The address of a page, below wherever the inspector is mounted."""
    given = {
        _field(n, value): value for n, value in query.items() if value not in (None, "")
    }
    return f"{page or './'}?{urlencode(given)}" if given else page or "./"


def _field(name: str, value: object) -> str:
    """How a field of an address or a form is called: a room's name is not a
    user's id.
    """
    return "room" if isinstance(value, RoomName) else name


def cut(text: str, most: int = SHOWN) -> str:
    """The text, or its beginning."""
    return text if len(text) <= most else text[:most] + "…"


def marked(
    text: str, words: Iterable[str], *, between: tuple[str, str] = ("", "")
) -> Iterator[tuple[str, bool]]:
    """The text in parts: those that are one of these words, and what stands between
    them.

    The patterns of `between` say what must stand before and after a word.
    """
    wanted = sorted({word for word in words if word.strip()}, key=len, reverse=True)
    any_word = "|".join(map(re.escape, wanted)) or "(?!)"
    place = 0
    for found in re.finditer(f"{between[0]}(?:{any_word}){between[1]}", text):
        yield text[place : found.start()], False
        yield found.group(), True
        place = found.end()
    yield text[place:], False


def cited(text: str, ids: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """A context in parts: the ids in its brackets, and what stands between them."""
    return marked(text, ids, between=(r"(?:(?<=\[)|(?<=, ))", r"(?=\]|, )"))


def minute(at: datetime | None) -> str:
    """A time in UTC, to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}" if at else "–"


def day(at: datetime | None) -> str:
    """The day of a time, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d}" if at else "–"


def age(at: datetime | None) -> str:
    """How long ago it was, in its largest unit."""
    seconds = (datetime.now(UTC) - at).total_seconds() if at else 0
    units = ((86_400, "d"), (3_600, "h"), (60, "min"))
    found = next(((size, name) for size, name in units if seconds >= size), (1, "s"))
    return f"{seconds / found[0]:.0f} {found[1]}"


def width(value: float, values: Iterable[float]) -> float:
    """The length of a bar, 0 to 60, beside the others of its signal."""
    largest = max((abs(one) for one in values), default=0.0)
    return round(60 * abs(value) / largest, 1) if largest else 0.0


def drawing(around: Neighbourhood) -> Mapping[str, Any]:
    """Where each record and edge of a neighbourhood lies: the record in the middle, two
    rings.
    """
    inner = {end for edge in _of(around.records[0], around.edges) for end in edge}
    first = around.records[0]
    rings = (
        [one for one in around.records[1:] if one.record_id in inner],
        [one for one in around.records[1:] if one.record_id not in inner],
    )
    at = {first.record_id: (400.0, 300.0)}
    for ring, (across, down) in zip(rings, ((190, 140), (350, 260)), strict=True):
        for place, one in enumerate(ring):
            turn = 2 * math.pi * place / len(ring) - math.pi / 2
            x = 400 + across * math.cos(turn)
            y = 300 + down * math.sin(turn)
            at[one.record_id] = (round(x, 1), round(y, 1))
    return {"at": at, "records": around.records, "edges": around.edges}


def _of(record: Record, edges: Sequence[Edge]) -> list[tuple[str, str]]:
    pairs = [(edge.source, edge.target) for edge in edges]
    return [pair for pair in pairs if record.record_id in pair]


_environment = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(
    cut=cut, marked=marked, cited=cited, minute=minute, day=day, age=age, width=width
)
_environment.filters.update(room=RoomName, field=lambda user: _field("user", user))
_environment.globals.update(
    link=link, SHOWN=SHOWN, version=__version__, ROOM_IS_READ_ONLY=ROOM_IS_READ_ONLY
)


def render(template: str, visit: Visit, context: Mapping[str, Any]) -> Iterator[str]:
    """A page as HTML, up to each of its pauses: the browser shows what comes before."""
    shared = {
        "user": visit.of,
        "is_room": isinstance(visit.of, RoomName),
        "csrf": visit.csrf,
        "allow_changes": visit.allow_changes,
        "has_model": visit.memory.has_model,
        "done": DONE.get(visit.get("done"), ""),
        "page": template.removesuffix(".html"),
        "pause": PAUSE,
    }
    parts = list[str]()
    for part in _environment.get_template(template).generate({**shared, **context}):
        if part == PAUSE:
            yield "".join(parts)
            parts.clear()
        else:
            parts.append(part)
    yield "".join(parts)
