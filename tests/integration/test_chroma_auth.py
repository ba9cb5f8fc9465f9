"""A Chroma server behind a proxy that asks for a password: Chroma's own server has none."""

import base64
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from langmem_graph.errors import IndexUnavailableError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.storage.chroma_index import connect
from tests.conftest import said
from tests.support.chroma_server import Server
from tests.support.loopback import loopback_alone
from tests.support.shown_code import blocks, run_page

pytestmark = [pytest.mark.enable_socket, pytest.mark.long]
SMALL = Settings(storage=StorageSettings(index_batch=4))
BASIC = "Basic " + base64.b64encode(b"memory:s3cret p@ss").decode()


@pytest.fixture
def server(tmp_path: Path, socket_enabled: None) -> Iterator[Server]:
    with loopback_alone():
        running = Server(tmp_path / "server")
        yield running
        running.stop()


class Proxy:
    """Lets requests with one of the right headers through."""

    def __init__(self, target: str) -> None:
        tokens = {("X-Chroma-Token", "t0ken"), ("Authorization", "Bearer t0ken")}
        self.wanted = {("Authorization", BASIC)} | tokens
        self.refused = 0
        proxy, client = self, httpx.Client(base_url=target)

        class Handler(BaseHTTPRequestHandler):
            def _pass_on(self) -> None:
                if not proxy.wanted & set(self.headers.items()):
                    proxy.refused += 1
                    self._answer(401, b'{"error": "Unauthorized", "message": "no"}')
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                kept = {
                    "Content-Type": self.headers.get("Content-Type", "application/json")
                }
                got = client.request(
                    self.command, self.path, content=body, headers=kept
                )
                self._answer(got.status_code, got.content)

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host, self.port = "127.0.0.1", self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    running = Proxy(server.url)
    yield running
    running.close()


def use(path: Path, chroma: Any) -> tuple[str, str]:
    with Memory(path, chroma=chroma, embeddings="hash", settings=SMALL) as memory:
        ana = memory.user("ana")
        assert len(
            ana.add(
                [said(f"text {n}", id=str(n)) for n in range(9)], session_id="s"
            ).stored
        )
        found = ana.recall("text 3")
        assert found.evidence[0].message_id == "3"
        return found.report.status, str(found.report.warnings)


def test_a_password_in_the_url(proxy: Proxy, tmp_path: Path) -> None:
    url = f"http://memory:s3cret%20p%40ss@127.0.0.1:{proxy.port}"
    assert use(tmp_path / "m", url)[0] == "ok"
    assert proxy.refused == 0


def test_a_client_with_a_token(proxy: Proxy, tmp_path: Path) -> None:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    quiet = ChromaSettings(
        anonymized_telemetry=False,
        chroma_client_auth_provider="chromadb.auth.token_authn.TokenAuthClientProvider",
        chroma_client_auth_credentials="t0ken",
        chroma_auth_token_transport_header="X-Chroma-Token",
    )
    client = chromadb.HttpClient(host=proxy.host, port=proxy.port, settings=quiet)
    assert use(tmp_path / "m", client)[0] == "ok"
    assert proxy.refused == 0


def test_the_page_runs_as_printed(
    proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"http://127.0.0.1:{proxy.port}"
    monkeypatch.setenv("CHROMA_URL", url.replace("//", "//memory:s3cret%20p%40ss@"))
    monkeypatch.setenv("CHROMA_HOST", url)
    monkeypatch.setenv("CHROMA_TOKEN", "t0ken")
    page = Path(__file__).parents[2] / "docs/security.md"
    printed = [block.output or "" for block in blocks(page) if block.kind == "python"]
    assert run_page(page, tmp_path) == printed
    assert proxy.refused == 0


def test_a_wrong_password_degrades_and_is_not_told(
    proxy: Proxy, tmp_path: Path
) -> None:
    url = f"http://memory:wr0ng@127.0.0.1:{proxy.port}"
    status, warnings = use(tmp_path / "m", url)
    assert status == "degraded"
    assert proxy.refused
    assert "wr0ng" not in warnings
    with pytest.raises(IndexUnavailableError) as caught:
        connect(url)
    assert "wr0ng" not in str(caught.value)


def test_chromas_own_server_asks_for_nothing(
    tmp_path: Path, socket_enabled: None
) -> None:
    """Settings of older versions are ignored without a word; should this fail, say so in docs."""
    own = {
        "CHROMA_SERVER_AUTHN_PROVIDER": (
            "chromadb.auth.token_authn.TokenAuthenticationServerProvider"
        ),
        "CHROMA_SERVER_AUTHN_CREDENTIALS": "t0ken",
    }
    with loopback_alone(), pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        assert set(own) <= set(os.environ)
        running = Server(tmp_path / "server")
        try:
            answer = httpx.get(
                f"{running.url}/api/v2/tenants/default_tenant/databases/default_database"
                "/collections"
            )
            assert answer.status_code == 200
        finally:
            running.stop()
    chroma = Path(sys.executable).parent / "chroma"
    described = subprocess.run(
        [chroma, "run", "--help"], capture_output=True, text=True, check=True
    )
    assert "auth" not in described.stdout.lower()
