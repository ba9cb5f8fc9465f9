"""Makes the pictures of the inspector in docs/images with a real browser, from the
demo's memory.

python tools/screenshots.py [--out DIR] [--browser /usr/bin/chromium]

What a model would read in the demo's conversation is scripted here. It takes half a
minute.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langmem_graph import Memory, Settings
from langmem_graph.cli.import_and_read import USER, conversation_file
from langmem_graph.inspector.app import server
from langmem_graph.testing import ScriptedChatModel, alias_of

BROWSER = "/usr/bin/chromium"
ARGUMENTS = """--no-sandbox --disable-gpu --disable-background-networking --no-first-run
--disable-sync --disable-component-update""".split()
TOKEN = "of-the-pictures"  # noqa: S105  # served on this machine, for seconds
NORDLYS = {"project": "Nordlys", "facet": "project_state", "subject": "Nordlys pilot"}
READ: list[tuple[str, dict[str, Any]]] = [
    ("nine-week-old beagle", {"text": "The user has a beagle puppy called Biscuit."}),
    (
        "chews everything green",
        {"text": "Biscuit is teething and chews everything green."},
    ),
    (
        "vaccination is due",
        {
            "text": "Biscuit's vaccination with Dr. Abara is on 3 March at 8:30.",
            "kind": "event",
            "facet": "schedule",
            "when": "2025-03-03T08:30",
        },
    ),
    (
        "Aisle seat, always",
        {"text": "The user takes an aisle seat.", "kind": "preference"},
    ),
    ("NX-4471-0093", {"text": "The user's frequent flyer number is NX-4471-0093."}),
    (
        "nothing before eight",
        {"text": "The user never departs before eight.", "kind": "preference"},
    ),
    ("live by 30 June", {"text": "The Nordlys pilot goes live by 30 June.", **NORDLYS}),
    ("200 households", {"text": "The Nordlys pilot has 200 households.", **NORDLYS}),
    (
        "84,000 euros",
        {"text": "The budget of the Nordlys pilot is 84,000 euros.", **NORDLYS},
    ),
    ("walnuts", {"text": "The user is allergic to walnuts: they close the throat."}),
    ("stopped eating meat", {"text": "The user's sister Leyla eats no meat."}),
    ("moved to Gothenburg", {"text": "Leyla lives in Gothenburg."}),
    ("15 August", {"text": "The Nordlys pilot goes live on 15 August.", **NORDLYS}),
    ("150 households", {"text": "The Nordlys pilot has 150 households.", **NORDLYS}),
    (
        "E-7719",
        {"text": "Test meters show the error E-7719; Tomas is on it.", **NORDLYS},
    ),
    ("my knee held up", {"text": "The user ran eight kilometres without knee pain."}),
    (
        "strength session",
        {
            "text": (
                "The user has a strength session every Tuesday at seven in the evening."
            ),
            "kind": "event",
            "facet": "schedule",
            "when": "2025-06-17T19:00",
            "recurrence": "FREQ=WEEKLY;BYDAY=TU",
        },
    ),
    (
        "東京の友達",
        {"text": "Kenji from Tokyo visits in October and likes sake.", "kind": "event"},
    ),
    ("a sago palm at the market", {"text": "The user nearly bought a sago palm."}),
]
REPLACED = {
    "The Nordlys pilot goes live by 30 June.": (
        "15 August",
        "move the go-live from 30 June to 15 August",
    ),
    "The Nordlys pilot has 200 households.": (
        "150 households",
        "It goes down to 150 households",
    ),
}
TRACKS = {
    "nordlys": (
        "Nordlys pilot",
        "Live on 15 August with 150 households.",
        "Nordlys|meters",
    ),
    "biscuit": (
        "Biscuit, the puppy",
        "A teething beagle who chews plants.",
        "Biscuit|puppy|palm",
    ),
    "travel": (
        "How the user flies",
        "Aisle seats, never before eight.",
        "seat|flyer|departs",
    ),
    "family-and-food": (
        "Family and food",
        "Leyla eats no meat.",
        "Leyla|walnuts|Kenji",
    ),
}
PROFILE = (
    "Runs the household side of the Nordlys pilot. Has a teething beagle, Biscuit. "
    "Flies on the "
    "aisle, never before eight. Is allergic to walnuts."
)
PAGES = {
    "layers": f"layers?user={USER}&topic=nordlys",
    "record": "record?user={user}&id={go_live}",
    "ask": f"ask?user={USER}&q=When+does+the+Nordlys+pilot+go+live%3F",
    "compare": f"compare?user={USER}&first=2025-05-01&second=2025-09-01",
}


def _found(question: str, words: str, kind: str) -> str | None:
    try:
        return alias_of(question, words, kind)
    except LookupError:
        return None


def extract(question: str) -> dict[str, Any]:
    """The memories of the messages that the question shows, and what they replace."""
    memories, changes = [], []
    for words, memory in READ:
        if alias := _found(question, words, "m"):
            attribute = memory["text"][:40]
            memories.append({"attribute": attribute, **memory, "sources": [alias]})
    for text, (words, quote) in REPLACED.items():
        older, alias = _found(question, text, "n"), _found(question, quote, "m")
        by = next((n for n, one in enumerate(memories) if words in one["text"]), None)
        if older and alias and by is not None:
            change = {"record": older, "relation": "replaces", "by": by}
            changes.append({**change, "message": alias, "quote": quote})
    return {"memories": memories, "changes": changes}


def _aliases(question: str, words: str) -> list[str]:
    lines = question.split("Changed records:\n")[1].splitlines()
    return [
        line.split(": ")[0]
        for line in lines
        if any(w in line for w in words.split("|"))
    ]


def gather(question: str) -> dict[str, Any]:
    """The tracks of the records that the question shows."""
    made = []
    for name, (title, summary, words) in TRACKS.items():
        if evidence := _aliases(question, words):
            about = {
                "name": name,
                "title": title,
                "summary": summary,
                "narrative": summary,
            }
            made.append({**about, "evidence": evidence})
    return {"tracks": made}


def reason(question: str) -> dict[str, Any]:
    """The go-live date in one look."""
    fact = _found(question, "move the go-live", "f")
    return {"facts": [fact] if fact else [], "sure": bool(fact)}


MODEL = ScriptedChatModel(
    answers={
        "Extraction": extract,
        "TopicRound": gather,
        "ProfileText": {"text": PROFILE, "topics": [*TRACKS]},
        "GoalPlan": reason,
    },
    record=False,
)


def demo_memory(directory: str | Path) -> Memory:
    """The demo's memory, read by the scripted model session by session."""
    memory = Memory(directory, model=MODEL, embeddings="hash", settings=Settings())
    mira = memory.user(USER)
    for line in conversation_file().read_text(encoding="utf-8").splitlines():
        talk = json.loads(line)
        mira.add(talk["messages"], session_id=talk["session_id"])
        if talk["session_id"] in ("2025-04-kitchen", "2025-08-balcony"):
            mira.flush()  # what is said later is read in view of what was said before
    return memory


@contextmanager
def served(memory: Memory, *, allow_changes: bool = False) -> Iterator[str]:
    """The inspector, served from a thread; its address."""
    import socket

    running = server(memory, TOKEN, allow_changes=allow_changes)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        while not running.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            running.should_exit = True
            thread.join()


def take(memory: Memory, out: Path, browser: str) -> None:
    """One picture of each page, and of two also in the dark and on a telephone."""
    from playwright.sync_api import sync_playwright

    rows = memory.user(USER).export_records(history=True)
    go_live = next(row["record_id"] for row in rows if "30 June" in row["text"])
    looks: dict[str, dict[str, Any]] = {
        "": {"viewport": {"width": 1240, "height": 760}},
        "-dark": {"viewport": {"width": 1240, "height": 760}, "color_scheme": "dark"},
        "-narrow": {"viewport": {"width": 390, "height": 760}},
    }
    with served(memory, allow_changes=True) as address, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=ARGUMENTS)
        for look, options in looks.items():
            page = chromium.new_page(**options)
            page.goto(f"{address}?token={TOKEN}")
            for name, place in PAGES.items():
                if look and name != "layers":
                    continue
                page.goto(address + place.format(user=USER, go_live=go_live))
                page.screenshot(path=out / f"inspector-{name}{look}.png")
        chromium.close()


def main() -> None:
    """Make the pictures, and say how large they are."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("docs/images"))
    options.add_argument("--browser", default=BROWSER)
    chosen = options.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, demo_memory(directory) as memory:
        take(memory, chosen.out, chosen.browser)
    sizes = {
        file.name: file.stat().st_size
        for file in sorted(chosen.out.glob("inspector-*.png"))
    }
    for name, size in sizes.items():
        print(f"{size / 1000:6.0f} kB  {name}")
    print(f"{sum(sizes.values()) / 1000:6.0f} kB together")


if __name__ == "__main__":
    main()
