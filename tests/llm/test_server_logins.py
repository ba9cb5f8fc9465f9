"""A server's password is sent in a header, so that no log of requests shows it."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from langmem_graph.causal.local_models import LlamaServer
from langmem_graph.errors import ChatModelError, InvalidInputError
from langmem_graph.llm.chat_models import load_chat_model
from tests.support.loopback import loopback_alone

pytestmark = pytest.mark.enable_socket
SENT: list[str | None] = []
REPLY = {"index": 0, "message": {"role": "assistant", "content": "Yes."}}
ANSWERS: dict[str, dict[str, Any]] = {
    "/v1/models": {"object": "list", "data": [{"id": "small", "object": "model"}]},
    "/v1/chat/completions": {"id": "1", "choices": [REPLY], "object": "chat"},
}


@pytest.mark.parametrize(
    "url",
    [
        "http://http://me:S3CRET@host/v1",
        "http://m\ud800e:S3CRET@host/v1",
        "http://me%3AS3CRET%40host/v1",
        "http://me%253AS3CRET%2540host",
        "http://host&password=S3CRET",
        "http://me/S3CRET@host:8000/v1",
        "http://me:80/S3CRET@host",
        "http://me/S3CRET%2540host",
        "http://host/password=S3CRET/v1",
    ],
)
def test_an_unusable_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ChatModelError) as refused:
        load_chat_model("small", url)
    assert "S3CRET" not in str(refused.value)
    with pytest.raises(InvalidInputError) as refused_too:
        LlamaServer(url)
    assert "S3CRET" not in str(refused_too.value)


@pytest.mark.parametrize("url", [None, 5, b"http://host"])
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(InvalidInputError, match="server's URL"):
        LlamaServer(url)
    if url is not None:  # the model's own server
        with pytest.raises(ChatModelError):
            load_chat_model("small", url)


def test_what_is_no_models_name_is_refused() -> None:
    with pytest.raises(ChatModelError, match="No chat model"):
        load_chat_model(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        {"api_key": ["S3CRET"]},
        {"default_headers": {"Authorization": ["Bearer S3CRET"]}, "api_key": "k"},
    ],
)
def test_a_wrong_option_is_refused_without_its_value(option: dict[str, Any]) -> None:
    with pytest.raises(ChatModelError) as refused:
        load_chat_model("openai:small", **option)
    assert "S3CRET" not in str(refused.value)
    assert refused.value.__cause__ is None


class Answering(BaseHTTPRequestHandler):
    """Lists one model, and answers every conversation alike."""

    def do_GET(self) -> None:
        SENT.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = json.dumps(ANSWERS[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    SENT.clear()
    with loopback_alone(), ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_password_is_sent_and_not_logged(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        model = load_chat_model(base_url=f"http://ana:s3cret%21@127.0.0.1:{port}/v1")
        assert model is not None
        assert model.invoke("Hello?").content == "Yes."
    login = base64.b64encode(b"ana:s3cret!").decode()
    assert [f"Basic {login}"] * 2 == SENT
    assert f"127.0.0.1:{port}/v1" in caplog.text
    assert "s3cret" not in caplog.text
    assert login not in caplog.text


def test_a_key_in_a_query_is_refused_and_not_logged(
    port: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"), pytest.raises(ChatModelError) as refused:
        load_chat_model(base_url=f"http://127.0.0.1:{port}/v1?token=s3cret")
    assert SENT == []
    assert "s3cret" not in f"{refused.value} {caplog.text}"
