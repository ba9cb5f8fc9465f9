"""Shared rooms in the inspector: the pages of a user, with authors, and no change."""

import re
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from langmem_graph import Memory
from langmem_graph.inspector.rendering import link
from langmem_graph.inspector.visit import RoomName
from langmem_graph.rooms import shared_key
from tests.conftest import let_go
from tests.inspector.test_pages import links, words
from tests.support.inspected import ANA, DENTIST, HOSTILE, client, scripted

ROOM, BOB = ANA, "bob <b>the builder</b>"  # a room may have a user's name
FRIDAY = "We ship the pelicans on Friday."
OF_ROOM = ("person", "layers", "schedule", "compare", "calls")


def tell(memory: Memory) -> None:
    team = memory.shared(ROOM, as_user=BOB)
    rows = [
        {"role": "user", "content": text, "id": name} for name, text in HOSTILE.items()
    ]
    rows.append({"role": "user", "content": FRIDAY, "id": "m", "name": "B."})
    team.add(rows, session_id="<b>hostile</b>", at="2026-01-02")
    own = {"text": FRIDAY, "source_message_ids": ["m"], "record_id": "r"}
    timed = {"facet": "schedule", "kind": "event", "event_time": DENTIST}
    hostile = [
        {"text": t, "record_id": n, "source_message_ids": [n]}
        for n, t in HOSTILE.items()
    ]
    assert not team.add_records([own | timed, *hostile]).rejected
    memory.user(ANA).add([("user", "I have a secret cat.")], session_id="own")


def page(visitor: TestClient, name: str, status: int = 200, **query: Any) -> str:
    answer = visitor.get(f"/{name}", params={"room": ROOM, **query})
    assert answer.status_code == status, answer.text
    return answer.text


def test_a_room_is_opened_like_a_user_and_shows_who_wrote(tmp_path: Path) -> None:
    look_at_all(tmp_path / "m")


def look_at_all(place: Any) -> None:
    """Open every page of a room; the memory that is looked at has no `authorize` to ask."""
    with Memory(place, embeddings="hash", authorize=lambda *_: True) as memory:
        tell(memory)
    shared = Memory(place, embeddings="hash", model=scripted())
    visitor = client(shared, allow_changes=True)
    people = visitor.get("/")
    assert link("person", user=RoomName(ROOM)) in links(people.text)
    assert "(shared room)" in words(people.text)
    record = {"id": "r"}
    told = {name: page(visitor, name) for name in OF_ROOM}
    told["schedule"] = page(visitor, "schedule", since="2026-03-01", until="2026-03-31")
    told["compare"] = page(visitor, "compare", first="2025-01-01", second="2100-01-01")
    told |= {name: page(visitor, name, **record) for name in ("record", "graph")}
    told["message"] = page(visitor, "message", id="m")
    told["conversation"] = page(visitor, "conversation", session="<b>hostile</b>")
    told["ask"] = page(visitor, "ask", q="When do we ship pelicans?")
    for name, html in told.items():
        assert "A shared room is only shown here" in words(html)
        assert "secret cat" not in html
        assert 'action="change"' not in html
        assert "forget?" not in html
        for bad in ("<b>", "<script>", "<img", "pwned</h1>"):
            assert bad not in html, name
        assert not [
            one for one in links(html) if one.startswith("javascript") or "user=" in one
        ]
        if name not in ("person", "calls", "graph"):
            assert FRIDAY in words(html), name
            assert f"<bdi>{escape(BOB)}</bdi>" in html, name
    assert visitor.get("/text", params={"room": ROOM, "id": "m"}).text == FRIDAY
    assert (
        "secret cat"
        in visitor.get("/conversation", params={"user": ANA, "session": "own"}).text
    )
    assert "pelicans" not in visitor.get("/layers", params={"user": ANA}).text
    csrf = re.search(r'name="csrf" value="(\w+)"', told["ask"])[1]
    asked = {"csrf": csrf, "room": ROOM, "q": "When do we ship pelicans?"}
    assert FRIDAY in words(visitor.post("/reason", data=asked).text)
    assert visitor.post("/reason", data=asked | {"csrf": "no"}).status_code == 403
    let_go(shared)


@pytest.fixture
def told(memory: Memory) -> Memory:
    memory._access._authorize = lambda *_: True
    tell(memory)
    memory._access._authorize = None
    return memory


def test_every_link_in_a_room_leads_somewhere(told: Memory) -> None:
    visitor, places = client(told), set[str]()
    todo = [link("person", user=RoomName(ROOM))]
    while todo:
        place = todo.pop()
        answer = visitor.get(f"/{place.partition('#')[0]}")
        assert answer.status_code == 200, place
        places.add(place)
        if not place.startswith(("static", "schedule", "./")):
            found = {one for one in links(answer.text) if not one.startswith("#")}
            todo += sorted(found - places - set(todo))
    assert len(places) > 30


@pytest.mark.parametrize("action", ["correct", "undo", "forget"])
def test_nothing_in_a_room_is_changed(told: Memory, action: str) -> None:
    visitor = client(told, allow_changes=True)
    visitor.get("/")
    (cookie,) = visitor.cookies.jar
    # a right one: it is the room that refuses
    csrf = visitor.app._sign(f"form {cookie.value}")
    form = {
        "csrf": csrf,
        "action": action,
        "room": ROOM,
        "record": "r",
        "text": "Never.",
    }
    for fields in (form, form | {"user": ANA}, form | {"csrf": "no"}):
        answer = visitor.post("/change", data=fields)
        assert answer.status_code == 403
        wrong = fields["csrf"] == "no"
        told_why = re.search(r'<p class="error">(.*?)</p>', answer.text)[1]
        assert ("reload the page" if wrong else "only shown here") in told_why
    page(visitor, "forget", 403, record="r")
    told._access._authorize = lambda *_: True
    (record,) = told.shared(ROOM, as_user=BOB).get_records("r")
    assert (record.text, record.status) == (FRIDAY, "active")


def test_what_is_refused_for_users_is_refused_for_rooms(told: Memory) -> None:
    place = {"params": {"room": ROOM}}
    visitor = client(told)
    assert (
        visitor.get("/person", headers={"host": "evil.example"}, **place).status_code
        == 400
    )
    post: Any = {
        "headers": {"origin": "http://evil.example"},
        "data": {"room": ROOM, "q": "x"},
    }
    assert visitor.post("/reason", **post).status_code == 403
    assert client(told, token="s3cret").get("/person", **place).status_code == 403
    for room, status in (("nobody", 404), ("x" * 501, 400)):
        assert visitor.get("/person", params={"room": room}).status_code == status
    # no user's id can be a room's key
    key = quote(shared_key(ROOM), errors="surrogatepass")
    assert visitor.get(f"/person?user={key}").status_code == 404
