"""The inspector's pages say the same of a memory in PostgreSQL as of one in a directory."""

import re
from pathlib import Path

import pytest

from langmem_graph import Memory
from tests.conftest import let_go
from tests.inspector.test_pages import page, words
from tests.inspector.test_shared_rooms import look_at_all
from tests.support.inspected import BERLIN, client, fill, record_of, scripted

pytestmark = [pytest.mark.enable_socket, pytest.mark.long]
PAGES = {
    "person": {},
    "conversation": {"session": "new"},
    "message": {"id": "b"},
    "layers": {},
    "layers?": {"as_of": "2026-01-15"},
    "record": {"id": BERLIN},
    "graph": {"id": BERLIN},
    "ask": {"q": "Where in Berlin do I live?"},
    "schedule": {"since": "2026-03-01", "until": "2026-03-31"},
    "compare": {"first": "2026-01-15", "second": "2026-02-15"},
}
OWN = re.compile(r"\b[0-9a-f]{8,}\b|\b\d+ m?s\b|\d{4}-\d\d-\d\d \d\d:\d\d")
"""Ids that are drawn, and times of the clock."""


def shown(memory: Memory) -> dict[str, str]:
    told = {}
    for name, query in PAGES.items():
        asked = {
            **query,
            **({"id": record_of(memory, BERLIN)} if BERLIN in query.values() else {}),
        }
        told[name] = OWN.sub(
            "…", words(page(client(memory), name.rstrip("?"), **asked))
        )
    return told


def test_the_pages_of_both_engines_say_the_same(database: str, tmp_path: Path) -> None:
    found = []
    for place in (tmp_path / "memory", database):
        memory = Memory(place, embeddings="hash", model=scripted())
        fill(memory)
        found.append(shown(memory))
        let_go(memory)
    of_directory, of_database = found
    for name, told in of_directory.items():
        assert of_database[name] == told, name


def test_a_shared_room_is_opened(database: str) -> None:
    look_at_all(database)
