"""What the inspector refuses, and what it says about itself in its headers."""

import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from langmem_graph import Memory
from langmem_graph.inspector import create_inspector
from langmem_graph.inspector.app import serve, server
from tests.support.inspected import ANA, client
from tests.support.loopback import loopback_alone

CSP = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"


@pytest.fixture
def small(memory: Memory) -> Memory:
    memory.user(ANA).add([("user", "I have a cat.")], session_id="s")
    return memory


@pytest.mark.parametrize(
    "place", ["/", "/static/inspector.css", "/nowhere", "/person?user=nobody"]
)
def test_every_answer_has_its_safety_headers(small: Memory, place: str) -> None:
    headers = client(small).get(place).headers
    assert headers["content-security-policy"] == CSP
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_a_mounted_inspector_answers_without_a_token_and_its_links_work(
    small: Memory,
) -> None:
    app = Starlette(routes=[Mount("/deep/memory", create_inspector(small))])
    visitor = TestClient(app, base_url="http://localhost:8123")
    page = visitor.get("/deep/memory/")
    assert page.status_code == 200
    links = [
        link
        for link in re.findall(r'(?:href|src)="([^"]*)"', page.text)
        if link[0] != "#"
    ]
    assert len(links) > 4
    for link in links:
        assert (
            visitor.get(str(page.url.join(link.replace("&amp;", "&")))).status_code
            == 200
        ), link
    assert "Path=/deep/memory;" in page.headers["set-cookie"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1@evil.ex", "["]
)
def test_a_foreign_host_is_refused(small: Memory, host: str) -> None:
    answer = client(small).get("/", headers={"host": host})
    assert answer.status_code == 400
    assert "hosts=" in answer.text


def test_a_mounting_application_names_its_hosts(small: Memory) -> None:
    app = create_inspector(small, hosts=["intranet.example"])
    assert (
        TestClient(app, base_url="https://Intranet.example:8443").get("/").status_code
        == 200
    )
    assert TestClient(app, base_url="http://127.0.0.1").get("/").status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1"}, 200),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 200),
        ({"origin": "null"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "http://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_a_change_from_another_origin_is_refused(
    small: Memory, headers: dict[str, str], status: int
) -> None:
    visitor = client(small, allow_changes=True)
    record = small.user(ANA).remember("Ana has a dog.").record_id
    csrf = _csrf(visitor.get("/").text, visitor, record)
    form = {
        "csrf": csrf,
        "action": "correct",
        "user": ANA,
        "record": record,
        "text": "A cat.",
    }
    answer = visitor.post("/change", data=form, headers=headers)
    assert answer.status_code == status
    assert (small.user(ANA).get_records(record)[0].status == "active") == (
        status != 200
    )


def _csrf(_: str, visitor: TestClient, record: str) -> str:
    page = visitor.get("/record", params={"user": ANA, "id": record}).text
    return re.search(r'name="csrf" value="(\w+)"', page)[1]


@pytest.mark.parametrize("wrong", ["", "0" * 64, "ä", "of another visitor"])
def test_a_change_needs_the_csrf_token_of_its_visitor(
    small: Memory, wrong: str
) -> None:
    app = create_inspector(small, allow_changes=True)
    mine, other = (TestClient(app, base_url="http://127.0.0.1") for _ in range(2))
    record = small.user(ANA).remember("Ana has a dog.").record_id
    form = {
        "action": "correct",
        "user": ANA,
        "record": record,
        "text": "Ana has a cat.",
    }
    mine.get("/")
    given = _csrf("", other, record) if wrong == "of another visitor" else wrong
    answer = mine.post("/change", data={**form, "csrf": given})
    assert answer.status_code == 403
    assert "reload the page" in answer.text
    assert small.user(ANA).get_records(record)[0].status == "active"
    assert (
        other.post(
            "/change", data=form | {"csrf": _csrf("", other, record)}
        ).status_code
        == 200
    )


@pytest.mark.parametrize("action", ["correct", "undo", "forget"])
def test_changes_are_refused_where_they_were_not_allowed(
    small: Memory, action: str
) -> None:
    visitor = client(small)
    record = small.user(ANA).remember("Ana has a dog.").record_id
    visitor.get("/")
    (cookie,) = visitor.cookies.jar
    # the page shows no form; with the right token the change is refused all the same
    csrf = visitor.app._sign(f"form {cookie.value}")
    form = {
        "csrf": csrf,
        "action": action,
        "user": ANA,
        "record": record,
        "text": "A cat.",
    }
    answer = visitor.post("/change", data=form)
    assert answer.status_code == 403
    assert "--allow-changes" in answer.text
    assert small.user(ANA).get_records(record)[0].status == "active"
    page = visitor.get("/record", params={"user": ANA, "id": record}).text
    assert 'action="change"' not in page


def test_the_token_is_exchanged_for_a_cookie_and_leaves_the_address(
    small: Memory,
) -> None:
    visitor = client(small, token="s3cret")
    for place in (
        "/",
        "/static/inspector.css",
        "/?token=wrong",
        "/?token=",
        f"/text?user={ANA}",
    ):
        assert visitor.get(place, follow_redirects=False).status_code == 403
    assert not visitor.cookies
    first = visitor.get("/?token=s3cret", follow_redirects=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/"
    assert re.fullmatch(
        r"inspector-[0-9a-f]{16}=[\w-]+\.[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Strict",
        first.headers["set-cookie"],
    )
    assert visitor.get("/").status_code == 200
    (cookie,) = visitor.cookies.jar
    forged = {cookie.name: f"guess.{cookie.value.split('.')[1]}"}
    again = TestClient(visitor.app, base_url="http://127.0.0.1", cookies=forged)
    assert again.get("/").status_code == 403
    odd = TestClient(visitor.app, base_url="http://127.0.0.1")
    header = f"{cookie.name}=\xe9.\xe9".encode("latin-1")
    assert odd.get("/", headers=[(b"cookie", header)]).status_code == 403
    elsewhere = create_inspector(small, token="s3cret")
    own = {cookie.name: cookie.value}
    visitor = TestClient(elsewhere, base_url="http://127.0.0.1", cookies=own)
    assert visitor.get("/").status_code == 403


def test_a_secure_site_gets_a_secure_cookie(small: Memory) -> None:
    app = create_inspector(small)
    assert (
        "; Secure"
        in TestClient(app, base_url="https://localhost").get("/").headers["set-cookie"]
    )


def test_too_long_a_form_is_refused(small: Memory) -> None:
    answer = client(small, allow_changes=True).post(
        "/change", data={"text": "x" * 300_000}
    )
    assert answer.status_code == 400


@pytest.fixture
def _loopback(socket_enabled: None) -> Iterator[None]:
    with loopback_alone():
        yield


@pytest.mark.usefixtures("_loopback")
def test_it_is_served_on_loopback_alone_and_the_token_is_in_no_log(
    small: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []
    bound: list[tuple[str, int]] = []
    made = socket.create_server

    def create_server(address: tuple[str, int], **options: object) -> socket.socket:
        bound.append(address)
        return made(address, **options)  # type: ignore[arg-type]

    class StoppedError(Exception):
        """The server was about to run."""

    def run(self: object, sockets: list[socket.socket]) -> None:
        assert sockets[0].getsockname()[0] == "127.0.0.1"
        raise StoppedError

    monkeypatch.setattr(socket, "create_server", create_server)
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr("uvicorn.Server.run", run)
        serve(small, port=0, allow_changes=False, announce=told.append)
    assert bound == [("127.0.0.1", 0)]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", told[0])

    caplog.set_level(logging.DEBUG)
    running = server(small, "s3cret-token")
    with made(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        for name in ("httpx", "httpcore"):
            caplog.set_level(logging.WARNING, name)
        try:
            with httpx.Client(follow_redirects=True, trust_env=False) as visitor:
                page = visitor.get(f"{address}/?token=s3cret-token")
        finally:
            running.should_exit = True
            thread.join()
    assert page.status_code == 200
    assert "token" not in str(page.url)
    assert "s3cret-token" not in caplog.text
    assert running.config.access_log is False


def test_an_open_directory_is_looked_at_from_beside(small: Memory) -> None:
    """The cleanest way in: no lock is taken, and nothing can be written."""
    place = Path(str(small.path))
    with Memory(place, embeddings="hash", read_only=True) as beside:
        visitor = client(beside, allow_changes=True)
        assert "ana/ö" in visitor.get("/").text
        small.user(ANA).add([("user", "I have a dog, too.")], session_id="later")
        assert "later" in visitor.get("/person", params={"user": ANA}).text
        own = small.user(ANA).export()[0]["id"]
        answer = visitor.get("/forget", params={"user": ANA, "message": own})
        assert answer.status_code == 403
