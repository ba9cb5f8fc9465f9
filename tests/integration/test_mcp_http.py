"""`langmem-graph mcp` as a process, asked by the official MCP client over HTTP."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from langmem_graph.memory import Memory
from tests.integration.conftest import two_users
from tests.support.loopback import free_port, loopback_alone

pytest.importorskip(
    "mcp", reason='the extra is not installed: pip install "langmem-graph[mcp]"'
)

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from starlette.testclient import TestClient

from langmem_graph.mcp.server import create_mcp_server
from langmem_graph.mcp.transports import create_app
from tests.support.mcp_clients import COMMAND, HELLO, ask, environment, fails

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180)]


@contextmanager
def served(home: Path, *options: str) -> Iterator[str]:
    """The server over HTTP, as a process; its address."""
    port = free_port()
    log = (home / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--http", "--port", str(port), *options],
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=log,
    )
    with loopback_alone():
        try:
            _wait(port, process, home / "log")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            log.close()


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    # a new one for each try would read all certificates again
    with httpx.Client() as web:
        for _ in range(600):
            try:
                web.get(f"http://127.0.0.1:{port}/")
                return
            except httpx.TransportError:
                time.sleep(0.1)
            if process.poll() is not None:
                break
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


@asynccontextmanager
async def over_http(
    url: str, user: str | None = None, **client: Any
) -> AsyncIterator[Any]:
    headers = {"X-User-Id": user} if user else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as web,
        streamable_http_client(url, http_client=web) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing, **client) as session,
    ):
        await session.initialize()
        yield session


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server for whoever a header names, which tests share."""
    home = two_users(tmp_path_factory.mktemp("served"))
    with served(home, "--user-header", "X-User-Id") as address:
        yield address
    assert "Traceback" not in (home / "log").read_text()


@pytest.mark.long
async def test_two_users_at_once_over_http(url: str) -> None:
    with loopback_alone():
        opened = {name: over_http(url, name) for name in ("ana", "bob")}
        async with opened["ana"] as ana, opened["bob"] as bob:
            seen: dict[str, list[str]] = {"ana": [], "bob": []}

            async def look(name: str, session: ClientSession) -> None:
                for number in range(5):
                    await ask(session, "remember", text=f"{name} has secret {number}.")
                    for tool in ("search_conversation", "search_records"):
                        seen[name].append(await ask(session, tool, query="seat secret"))

            async with anyio.create_task_group() as both:
                both.start_soon(look, "ana", ana)
                both.start_soon(look, "bob", bob)
            for name, other in (("ana", "bob"), ("bob", "ana")):
                assert len(seen[name]) == 10
                assert f"{name} has secret" in "".join(seen[name])
                assert f"{other} has" not in "".join(seen[name])
            assert "No message" in await ask(
                ana, "get_conversation", message_ids=["b1"]
            )
        refusal = pytest.RaisesExc(httpx.HTTPStatusError, match="403 Forbidden")
        with pytest.RaisesGroup(refusal, flatten_subgroups=True):
            async with over_http(url):
                pass


LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ANA = ("X-User-Id", "ana")
ACCEPT = ("Accept", "application/json, text/event-stream")


def post(url: str, body: Any, *headers: tuple[str, str | bytes]) -> httpx.Response:
    pairs = [
        (k.encode(), v.encode() if isinstance(v, str) else v)
        for k, v in (ACCEPT, *headers)
    ]
    return httpx.post(url, json=body, headers=pairs, timeout=60)


@pytest.mark.long
def test_who_is_let_in_over_http(url: str) -> None:
    with loopback_alone():
        for headers in (
            [],
            [("X-User-Id", "")],
            [("X-User-Id", "ana"), ("X-User-Id", "bob")],
            [("X-User-Id", b"\xff")],
        ):
            answer = post(url, HELLO, *headers)
            assert answer.status_code == 403, headers
            assert "exactly one header X-User-Id" in answer.json()["error"]["message"]
        opened = post(url, HELLO, ("X-User-Id", "ana"))
        assert opened.is_success
        session = ("Mcp-Session-Id", opened.headers["mcp-session-id"])
        assert post(url, LIST, session, ("X-User-Id", "bob")).status_code == 404
        assert post(url, LIST, session).status_code == 403
        assert post(url, LIST, session, ("X-User-Id", "ana")).is_success
        with_zoe = post(url, HELLO, ("X-User-Id", "zoë".encode()))
        assert with_zoe.is_success


@pytest.mark.parametrize(
    ("hosts", "status"), [(None, 200), (["memory.example"], 200), ([], 421)]
)
def test_which_names_of_the_machine_are_answered(
    memory: Memory, hosts: list[str] | None, status: int
) -> None:
    app = create_app(
        create_mcp_server(memory, user_id="ana"), memory, allowed_hosts=hosts
    )
    with TestClient(app, base_url="http://memory.example") as client:
        accepted = {"Accept": "application/json, text/event-stream"}
        assert client.post("/mcp", json=HELLO, headers=accepted).status_code == status


@pytest.mark.long
async def test_one_user_for_all_over_http(home: Path) -> None:
    """Whom a header names does not matter; a human is asked over HTTP too."""

    async def human(*_: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={})

    with served(
        home, "--user", "ana", "--allow-forget", "--allow-host", "memory.example"
    ) as url:
        async with over_http(url, "bob", elicitation_callback=human) as session:
            assert "aisle" in await ask(session, "search_conversation", query="seat")
            await ask(session, "remember", text="The locker code is 4711.")
            assert "deleted" in await ask(session, "forget", record_id="r1")
        assert post(url, HELLO, ("Host", "memory.example")).is_success
        assert post(url, HELLO, ("Host", "evil.example")).status_code == 421
        assert post(url, HELLO, ("Origin", "http://evil.example")).status_code == 403
    with Memory(home / "memory", embeddings="hash") as memory:  # it was let go of
        assert memory.user("ana").search_records("locker")


@pytest.mark.long
def test_a_port_in_use_is_said(home: Path) -> None:
    with loopback_alone(), closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert "in use" in fails(home, "--http", "--user", "ana", "--port", port)


@pytest.mark.long
def test_json_that_is_nested_too_deep_is_the_clients_mistake(url: str) -> None:
    with loopback_alone():
        session = ("Mcp-Session-Id", post(url, HELLO, ANA).headers["mcp-session-id"])
        kind = ("Content-Type", "application/json")
        with httpx.Client(
            headers=dict([ACCEPT, kind, session, ANA]), timeout=60
        ) as web:
            for depth in (100, 300, 500, 900, 5_000, 200_000):
                nested = f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{"[" * depth}'
                for body in (nested, f"{nested}{']' * depth}}}}}", b"\xff"):
                    answer = web.post(url, content=body)
                    assert answer.status_code in (200, 400), (depth, answer.status_code)
        assert answer.status_code == 400
        assert post(url, LIST, session, ANA).is_success


@pytest.mark.long
def test_a_client_that_ends_its_session_leaves_no_error_in_the_log(url: str) -> None:
    """The log is read when the server has ended."""
    with loopback_alone():
        session = ("Mcp-Session-Id", post(url, HELLO, ANA).headers["mcp-session-id"])
        headers = dict([ACCEPT, session, ANA])
        with httpx.stream("GET", url, headers=headers, timeout=60) as listening:
            assert listening.is_success
            assert httpx.delete(url, headers=headers, timeout=60).is_success


@pytest.mark.long
def test_a_session_nobody_uses_is_ended(home: Path) -> None:
    with served(home, "--user", "ana", "--session-idle", "0.5") as url:
        session = ("Mcp-Session-Id", post(url, HELLO).headers["mcp-session-id"])
        for _ in range(100):
            time.sleep(0.6)
            if post(url, LIST, session).status_code == 404:
                break
        else:
            pytest.fail("the session is still there")
        assert post(url, HELLO).is_success
