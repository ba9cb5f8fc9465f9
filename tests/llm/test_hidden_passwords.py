"""Passwords in the environment's addresses: of proxies, of servers and of folders."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from langmem_graph.causal.local_models import LlamaServer
from langmem_graph.embeddings import hub
from langmem_graph.embeddings.embedder import embeddings_by_name
from langmem_graph.errors import (
    CausalModelError,
    ChatModelError,
    IndexUnavailableError,
    InvalidInputError,
    LangMemGraphError,
    ModelFileError,
)
from langmem_graph.graphs.nodes import MemoryState
from langmem_graph.llm.chat_models import load_chat_model
from langmem_graph.llm.structured_calls import PURPOSES
from langmem_graph.memory import Memory
from langmem_graph.server_urls import as_shown
from langmem_graph.storage.chroma_index import connect
from langmem_graph.testing import ScriptedChatModel
from langmem_graph.threads import without_exits
from langmem_graph.user_memory import UserMemory
from tests.conftest import said
from tests.support.graphs import chatbot
from tests.support.models import AnswersBySchema

PROXIES = [
    "'http://me:S3CRET@localhost:1'",
    " http://me:S3CRET@localhost:1",
    "http://me:S3CRET/x@localhost:1",
    "http://me:a:S3CRET",
    "http://me:a/S3CRET@localhost:1",
    "ftp://me:S3CRET@localhost:1",
    "socks9://me:S3CRET@localhost:1",
]
SERVER = "http://10.0.0.1:1"
USES: dict[str, tuple[Callable[[], Any], type[LangMemGraphError]]] = {
    "llama": (lambda: LlamaServer(SERVER), CausalModelError),
    "first model": (lambda: load_chat_model(None, SERVER), ChatModelError),
    "model": (lambda: load_chat_model("m", SERVER), ChatModelError),
    "openai": (lambda: load_chat_model("openai:m"), ChatModelError),
    "embedder": (lambda: embeddings_by_name("openai:m"), InvalidInputError),
    "chroma": (lambda: connect(SERVER), IndexUnavailableError),
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.mark.parametrize("proxy", PROXIES)
@pytest.mark.parametrize("use", USES)
def test_no_error_shows_the_password_of_a_proxy(
    use: str,
    proxy: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    work, kind = USES[use]
    with caplog.at_level(logging.DEBUG), pytest.raises(kind) as refused:
        work()
    shown = "".join(traceback.format_exception(refused.value))
    assert "S3CRET" not in shown + caplog.text
    assert "HTTPS_PROXY" in str(refused.value)


def keyed_llama(key: str) -> str:
    with LlamaServer(SERVER, api_key=key) as server:
        return server._client.headers["Authorization"]


def keyed_model(key: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", key)
        model: Any = load_chat_model("m", SERVER)
    return f"Bearer {model.openai_api_key.get_secret_value()}"


@pytest.mark.parametrize("use", [keyed_llama, keyed_model])
def test_a_key_read_from_a_file_ends_before_its_line_does(
    use: Callable[[str], str],
) -> None:
    assert use(" S3CRET\r\n") == "Bearer S3CRET"


@pytest.mark.parametrize("key", ["S3CRET\nS3CRET", "\u201cS3CRET\u201d", "S3CRET\x01"])
@pytest.mark.parametrize("use", [keyed_llama, keyed_model])
def test_a_key_that_no_header_can_hold_is_refused(
    use: Callable[[str], str], key: str
) -> None:
    with pytest.raises(LangMemGraphError, match="key has a character") as refused:
        use(key)
    assert "S3CRET" not in "".join(traceback.format_exception(refused.value))


def test_a_header_that_a_client_refuses_is_not_quoted() -> None:
    error = ConnectionError("Connection error.")
    error.__cause__ = httpx.LocalProtocolError(
        "Illegal header value b'Bearer S3CRET\\n'"
    )
    text, cause = as_shown(error)
    assert "key" in text
    assert cause is None


@pytest.mark.parametrize("proxy", ["socks5://me:S3CRET@localhost:1"])
def test_what_a_proxy_needs_is_said(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(CausalModelError, match="httpx\\[socks\\]"):
        LlamaServer(SERVER)


@pytest.mark.parametrize("name", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
@pytest.mark.parametrize("url", ["http://me:S3CRET@h/v1", "http://h/v1?key=S3CRET"])
@pytest.mark.parametrize("use", ["openai", "embedder"])
def test_an_address_with_a_password_is_refused(
    use: str, url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, url)
    work, kind = USES[use]
    with pytest.raises(kind, match=f"{name} holds a user or a key") as refused:
        work()
    assert "S3CRET" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize(
    "place", ["postgresql://me:S3CRET@h/db", "host=h password=S3CRET", "'https://h/x'"]
)
def test_a_folder_of_models_is_no_url(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(hub.CACHE_VARIABLE, place)
    with pytest.raises(ModelFileError, match="reads as a URL") as refused:
        Memory(tmp_path / "m", embeddings="onnx:nobody/nothing")
    assert "S3CRET" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["/data/user=7", "models"])
def test_a_folder_is_one(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hub.CACHE_VARIABLE, place)
    assert hub.cache_directory() == Path(place)


class RefusedError(Exception):
    """As HTTP clients raise it: with the URL that was asked."""


def refuse(*_: object, **__: object) -> Any:
    raise RefusedError("401 for http://me:S3CRET@localhost:1/v1")


def turn(memory: Memory, patch: pytest.MonkeyPatch) -> Any:
    patch.setattr(UserMemory, "recall", refuse)
    graph = chatbot(memory, ScriptedChatModel(), report=True, schema=MemoryState)
    return graph.invoke(
        {"messages": [("user", "Tea?")]},
        {"configurable": {"user_id": "ana", "thread_id": "t"}},
    )["memory_report"]


NAMED = {"title": "act", "type": "object", "properties": {"x": {}}}
REPORTS: dict[str, Callable[[Memory, pytest.MonkeyPatch], Any]] = {
    "ground": lambda m, _: m.user("ana").ground(NAMED, "Take tea").warnings,
    "flush": lambda m, _: m.user("ana").flush().problems,
    "progress": lambda m, _: m.user("ana").flush(on_progress=refuse).problems,
    "recall": lambda m, _: m.user("ana").recall("Tea?", mode="reason").report,
    "turn": turn,
    "thread": lambda *_: without_exits(StopIteration("http://me:S3CRET@h")),
}


@pytest.mark.parametrize("use", REPORTS)
def test_no_report_shows_a_password_that_an_error_quotes(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = AnswersBySchema(**dict.fromkeys(PURPOSES, refuse))
    with Memory(tmp_path / "m", embeddings="hash", model=model) as memory:
        memory.user("ana").add([said("I like tea.")], session_id="s")
        shown = repr(REPORTS[use](memory, monkeypatch))
    assert "may hold a password" in shown
    assert "S3CRET" not in shown
