"""How soon the inspector's pages begin to show, and how much they transfer. No model is
called.

Run from the repository root: `python -m benchmarks.pages --messages 100k`. It needs
Playwright and Debian's chromium at /usr/bin/chromium.

A memory is made of chat made up by chance, in conversations of 100 messages with 10
records each, or taken from `--memory` where it is there. Pages are served read-only by
a process of their own, as `langmem-graph inspect` serves them, and opened in a browser:
a warm-up, then `--times` visits. Then the same beside a process that adds turns to that
memory.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

from benchmarks import chatter, common
from benchmarks.chatter import CheapEmbeddings
from langmem_graph.inspector.app import serve
from langmem_graph.inspector.rendering import link
from langmem_graph.memory import Memory, UserMemory

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = """--no-sandbox --disable-gpu --disable-background-networking --no-first-run
--disable-sync --disable-component-update""".split()
USER = "maren"
SESSION, RECORDS = 100, 10
"""Messages and records of a conversation."""
FIRST_DAY, DAYS = datetime(2024, 1, 1, tzinfo=UTC), 700
PAUSE = 0.1
"""Seconds between two turns that are added while pages are looked at."""
WAIT = 120_000
"""Milliseconds that a page may take before the run fails."""
SEEN = """async () => {
    const paint = await new Promise((resolve) => new PerformanceObserver((seen) => {
        for (const one of seen.getEntriesByName('first-contentful-paint'))
            resolve(one.startTime);
    }).observe({ type: 'paint', buffered: true }));
    const [page] = performance.getEntriesByType('navigation');
    const parts = [page, ...performance.getEntriesByType('resource')];
    const bytes = parts.reduce((sum, part) => sum + part.transferSize, 0);
    return { paint, whole: page.loadEventEnd, kilobytes: bytes / 1000 };
}"""


@dataclass(frozen=True)
class Opened:
    """What the browser saw of one view: medians of its visits."""

    paint: float
    """Milliseconds until something of it was painted."""
    whole: float
    """Milliseconds until all of it was there."""
    kilobytes: float
    """Transferred, with style sheets and scripts."""


Views = Mapping[str, Opened]


def main(words: Sequence[str] | None = None) -> int:
    """Both runs, one table."""
    options = _arguments(words)
    if options.role:
        {"serve": _serve, "write": _write}[options.role](options.memory)
        return 0
    with (
        TemporaryDirectory()
        if options.memory is None
        else nullcontext(options.memory) as folder
    ):
        place = Path(folder) / "memory" if options.memory is None else options.memory
        if not place.exists():
            build(place, options.messages)
        if options.times:
            common.save(options.output, "pages.md", measure(place, options.times))
    return 0


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    made = common.parser(__doc__)
    made.add_argument(
        "--messages", type=lambda text: common.sizes(text)[0], default=100_000
    )
    made.add_argument(
        "--times", type=int, default=5, help="visits of a view; 0: only builds"
    )
    made.add_argument(
        "--memory", type=Path, help="the memory is made here, or used if it is there"
    )
    made.add_argument("--role", choices=["serve", "write"], help=argparse.SUPPRESS)
    return made.parse_args(words)


def _embeddings() -> CheapEmbeddings:
    return CheapEmbeddings(chatter.make_chat())


# --- the memory
# ----------------------------------------------------------------------------------


def build(place: Path, messages: int) -> None:
    """Make a memory of so many messages of one user."""
    talks = enumerate(chatter.sessions(chatter.make_chat(), messages, length=SESSION))
    count = -(-messages // SESSION)
    with Memory(place, embeddings=_embeddings()) as memory, common.progress() as bar:
        for number, talk in bar.track(talks, count, description="adding"):
            _add(
                memory.user(USER),
                number,
                talk,
                FIRST_DAY + timedelta(days=DAYS * number / count),
            )


def _add(
    user: UserMemory, number: int, talk: list[dict[str, Any]], at: datetime
) -> None:
    named = [
        message | {"id": f"{number}-{place}"} for place, message in enumerate(talk)
    ]
    user.add(named, session_id=f"session-{number}", at=at)
    told = islice(named, 0, None, max(len(named) // RECORDS, 1))
    day = {"start": (at + timedelta(days=7)).date().isoformat(), "granularity": "day"}
    dated = {"facet": "schedule", "kind": "event", "event_time": day}
    rows = [
        {
            "text": message["content"],
            "source_message_ids": [message["id"]],
            **(dated if n else {}),
        }
        for n, message in enumerate(told)
    ]
    if rejected := user.add_records(rows).rejected:
        raise RuntimeError(f"records were not stored: {rejected}")


def _write(place: Path) -> None:
    """Add turns until the process is ended."""
    talks = chatter.sessions(chatter.make_chat(seed=11), 10_000_000, length=2)
    with Memory(place, embeddings=_embeddings()) as memory:
        user = memory.user(USER)
        for number, talk in enumerate(talks):
            user.add(talk, session_id=f"written-{number // 50}")
            if not number:
                print("writing", flush=True)
            sleep(PAUSE)


# --- the pages
# -----------------------------------------------------------------------------------


def _serve(place: Path) -> None:
    with Memory(place, embeddings=_embeddings(), read_only=True) as memory:
        serve(
            memory,
            port=0,
            allow_changes=False,
            announce=lambda text: print(text, flush=True),
        )


@contextmanager
def _process(role: str, place: Path) -> Iterator[str]:
    """A process of this module; yields its first line, and ends it."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.pages",
        "--role",
        role,
        "--memory",
        str(place),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            if running.stdout is None or not (
                line := running.stdout.readline().strip()
            ):
                raise RuntimeError(
                    f"the process that should {role} ended with an error"
                )
            yield line
        finally:
            running.terminate()


def measure(place: Path, times: int) -> str:
    """A table of all views, alone and beside a process that writes."""
    views = _views(place)
    with _process("serve", place) as address:
        alone = _opened(address, views, times)
        with _process("write", place):
            beside = _opened(address, views, times)
    header = ["view", "first paint, ms", "all of it, ms", "kB"]
    header += [f"{title} beside writing" for title in header[1:]]
    rows = [[name, *_cells(alone[name]), *_cells(beside[name])] for name in views]
    return common.table(header, rows)


def _cells(seen: Opened) -> list[str]:
    return [f"{seen.paint:,.0f}", f"{seen.whole:,.0f}", f"{seen.kilobytes:,.0f}"]


def _views(place: Path) -> dict[str, str]:
    """The address of each view; those that show one thing show one in the middle of the
    memory.
    """
    with Memory(place, embeddings=_embeddings(), read_only=True) as memory:
        user = memory.user(USER)
        sessions = [
            one for one in user.sessions() if one.session_id.startswith("session-")
        ]
        # none that was written meanwhile
        session = sessions[len(sessions) // 2].session_id
        message = user.conversation(session, limit=1)[0]
        record = user.made_of(message.id)[0].records[0].record_id
    at, later = message.at.date(), (message.at + timedelta(days=30)).date()
    question = chatter.queries(chatter.make_chat(), 1)[0]
    return {
        "people": "",
        "person": link("person", user=USER),
        "conversation": link("conversation", user=USER, session=session),
        "message": link("message", user=USER, id=message.id),
        "layers": link("layers", user=USER),
        "layers as of a date": link("layers", user=USER, as_of=at),
        "record": link("record", user=USER, id=record),
        "near a record": link("graph", user=USER, id=record),
        "ask": link("ask", user=USER, q=question),
        "schedule": link("schedule", user=USER, since=at, until=later),
        "two dates": link("compare", user=USER, first=at, second=later),
        "calls": link("calls", user=USER),
    }


def _opened(address: str, views: Mapping[str, str], times: int) -> Views:
    """Every view in a browser: `times` visits after a warm-up."""
    from playwright.sync_api import sync_playwright

    start = address.partition("?")[0]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=ARGUMENTS
        )
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        page.goto(address)
        seen = {
            name: [_visited(page, start + view, name) for _ in range(times + 1)][1:]
            for name, view in views.items()
        }
        browser.close()
    parts = ("paint", "whole", "kilobytes")
    return {
        name: Opened(*(median(one[part] for one in visits) for part in parts))
        for name, visits in seen.items()
    }


def _visited(page: Any, address: str, name: str) -> dict[str, float]:
    answer = page.goto(address)
    if answer.status != 200:
        raise RuntimeError(f"the view {name!r} was answered with {answer.status}")
    seen: dict[str, float] = page.evaluate(SEEN)
    return seen


if __name__ == "__main__":
    sys.exit(main())
