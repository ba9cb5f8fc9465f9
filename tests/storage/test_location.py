"""What may be given as the place of a memory."""

import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pytest
from huggingface_hub import constants
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from typer.testing import CliRunner

from langmem_graph import ChromaStore, Memory
from langmem_graph.causal.local_models import LlamaServer
from langmem_graph.cli.commands import app
from langmem_graph.embeddings.model_files import ModelFiles
from langmem_graph.errors import (
    CausalModelError,
    InvalidInputError,
    LangMemGraphError,
    StorageError,
)
from langmem_graph.storage.chroma_index import check_chroma
from langmem_graph.storage.location import read_location
from langmem_graph.storage.postgres_database import _read_url
from langmem_graph.testing import HashEmbeddings, ScriptedChatModel

SECRET = "s3cret"


class Named:
    """A path-like object with any path."""

    def __init__(self, path: object) -> None:
        self.path = path

    def __fspath__(self) -> object:
        return self.path


REFUSED = [
    f"mysql://app:{SECRET}@host/db",
    f"redis://:{SECRET}@host",
    f"http://app:{SECRET}@localhost:8000",
    "sqlite:///memory.db",
    f"postgresql://app:{SECRET}@host:5433/d%00b?sslmode=require",
    f"postgresql://a%00pp:{SECRET}@host/db",
    "file:///tmp/memory",
    f"'postgresql://app:{SECRET}@host/db'",
    f"jdbc:postgresql://app:{SECRET}@host/db",
    f"postgresql:app:{SECRET}@host/db",
    f"postgresql:\\\\app:{SECRET}@host/db",
    f"//app:{SECRET}@host/db",
    f"app:{SECRET}@host/db",
    f"p://app:{SECRET}@host/db",
    f"PASSWORD={SECRET} HOST=db",
    f"Server=db;Pwd={SECRET}",
    f"@postgresql://app:{SECRET}@host/db",
    f"host=db dbname=app password={SECRET}",
    Path(f"postgresql://app:{SECRET}@host/db"),
    f"postgresql%3A%2F%2Fapp:{SECRET}%40host/db",
    f"postgresql%253a%252F%252Fapp%3A{SECRET}%2540host/db",
    f"postgresql:%2F%2Fapp:{SECRET}%40host/db",
    f"app%3A{SECRET}%40host/db",
    f"app：{SECRET}＠host/db",
    f"postgresql：//app：{SECRET}＠host/db",
    f"postgresql://app:\ud800{SECRET}@host/db",
    f"postgresql://app:\0{SECRET}@host/db",
    f"app:s3/{SECRET}@host/db",
    f"postgresql:app:s3/{SECRET}@host/db",
    f"postgresql:\\/\\/app:s3/{SECRET}@host",
    f"//app:s3/{SECRET}@host/db",
    Path(f"app:s3/{SECRET}@host/db"),
    "service=prod",
    "hostaddr=127.0.0.1 port=5432",
    f"username=app pass={SECRET}",
    "uid=app",
    "passfile=/x",
    f"host:5432:db:user:{SECRET}",
    "localhost:5432/db",
    "postgresql//app@host/db",
    "postgresql: //app@host/db",
    "user@host/db",
    "user%40host/db",
    "${POSTGRES_URI}",
    "%POSTGRES_URI%",
    "<POSTGRES_URI>",
    "memory\x1b[0m",
    Named(3),
    Named(SECRET.encode()),
    "a\0b",
    "\ud800",
    "~nobody-of-this-name/memory",
    "",
    "  ",
]
UNCLEAR = [
    f"postgresql://app:x@{SECRET}@127.0.0.1:1/db",
    f"postgresql://app:x@y/{SECRET}@127.0.0.1:1/db",
    f"postgresql://app%3A{SECRET}%40127.0.0.1:1/db",
    f"postgresql://app:{SECRET}@[::1/db",
    f"postgresql://app:{SECRET}@127.0.0.1:port/db",
    f"postgresql://127.0.0.1:1/db;password={SECRET}",
    f"postgresql://127.0.0.1:1/db&password={SECRET}",
    f"postgresql://127.0.0.1:1/db password={SECRET}",
    f"postgresql://host=127.0.0.1 port=1 password={SECRET} dbname=x",
    f"postgresql://127.0.0.1:1/db?port={SECRET}",
    f"postgresql://127.0.0.1:1/db?plugin={SECRET}",
    f"postgresql://app：{SECRET}＠127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db&user:app&password:{SECRET}",
    f"postgresql://127.0.0.1:1/db;pwd:{SECRET}",
    f"postgresql://127.0.0.1:1/db:{SECRET}",
    f"postgresql://{SECRET}..b/db",
    f"postgresql://{'a' * 64}/db",
    f"postgresql:///db?host=a,{SECRET}..b",
    f"postgresql://app:p@{SECRET}?x@127.0.0.1:1/db",
    f"postgresql:///db?host=app:{SECRET}@127.0.0.1",
    f"postgresql:///db?host=app:{SECRET}%40127.0.0.1",
    f"postgresql:///db?host=password={SECRET}",
    f"postgresql://127.0.0.1:1/db?conninfo={SECRET}",
    f"postgresql://127.0.0.1:1/db?{SECRET}=x",
    f"postgresql://app%3A{SECRET}@127.0.0.1:1/db",
    f"postgresql://app%253A{SECRET}@127.0.0.1:1/db",
    f"postgresql://app;password={SECRET}@127.0.0.1:1/db",
    f"postgresql://app&password={SECRET}@127.0.0.1:1/db",
    f"postgresql://app password={SECRET}@127.0.0.1:1/db",
    f"postgresql://app {SECRET}@127.0.0.1:1/db",
    f"postgresql://user=app password={SECRET}@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?user=app%3A{SECRET}",
    f"postgresql://app:x@127.0.0.1:1/db?user=app&user=app%20{SECRET}",
]
POOLS = [
    f"postgresql://127.0.0.1:1/db;password={SECRET}",
    f"app:{SECRET}@host",
    f"passw={SECRET}",
    f"postgresql://app:{SECRET}/db",
    f"postgresql://app:p@x:{SECRET}",
    f"postgresql://app%3A{SECRET}@127.0.0.1:1/db",
    f"postgresql://127.0.0.1:1/db?user=app%3A{SECRET}",
]
NO_SERVER = [
    f"ftp://u:{SECRET}@host",
    f"http://u:{SECRET}@[::1",
    f"http://127.0.0.1;{SECRET}:1",
    f"http://u:{SECRET}@\u2100",
    f"http://u:{SECRET}@host:99999",
    f"http://u:{SECRET}@host:abc",
    f"http://u:{SECRET}@host:0",
    f"http://u:12/{SECRET}@host",
    f"http://u:12?{SECRET}@host",
    f"http://u:12#{SECRET}@host",
    f"http://u%3A{SECRET}%40host",
    f"http://u:\ud800{SECRET}@host",
    f"u:{SECRET}@host",
    f"http://u:{SECRET}@host".encode(),
    {"password": SECRET},
    "",
    "http://host:99999",
    "http://host:abc",
    "http://[::1",
]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:s3cret@host/db",
        "postgres://app:s3cret@host/db",
        "postgresql+psycopg://app:s3cret@host/db",
        "postgresql+asyncpg://app:s3cret@host/db",
        "POSTGRESQL://app:s3cret@host/db",
        "PostgreSQL+psycopg2://app:s3cret@host/db",
        "  postgresql://app:s3cret@host/db\n",
    ],
)
def test_each_spelling_of_a_postgresql_url_is_a_database(url: str) -> None:
    assert read_location(url) == "postgresql://app:s3cret@host/db"


@pytest.mark.parametrize(
    "given",
    [
        "memory",
        "a b/c",
        "./a b/c",
        "./a=b",
        "../me@home",
        "/data/${x}/me@home",
        "C:/memory",
        "C:\\memory",
        "C:/me@home",
        "/data/user=7/m",
        "./me@home",
    ],
)
def test_a_path_is_a_directory(given: str) -> None:
    assert read_location(given) == Path(given)
    assert read_location(Path(given)) == Path(given)
    assert read_location("~/memory") == Path.home() / "memory"


@pytest.mark.parametrize("given", REFUSED)
def test_anything_else_is_refused_in_one_line_without_a_password(
    given: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for opened in (Memory, ChromaStore):
        with pytest.raises(InvalidInputError) as error:
            opened(given, embeddings=HashEmbeddings())  # type: ignore[arg-type]
        assert SECRET not in str(error.value)
        assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", [f"mysql://app:{SECRET}@127.0.0.1:1/db", f"//app:{SECRET}@127.0.0.1:1/db"]
)
@pytest.mark.parametrize("command", [["migrate"], ["users", "-m"], ["doctor", "-m"]])
def test_commands_say_no_password(
    command: list[str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = url if url.startswith("mysql") else f"postgresql:{url}"
    result = CliRunner().invoke(app, [*command, given])
    assert result.exit_code != 0
    assert SECRET not in result.output + str(result.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", UNCLEAR)
def test_what_is_left_of_a_password_is_no_host(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="percent-encoded") as error:
        Memory(url, embeddings=HashEmbeddings())
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("conninfo", POOLS)
def test_what_is_left_of_a_password_in_a_pool_is_no_host(conninfo: str) -> None:
    pool = ConnectionPool(conninfo, open=False)
    with pytest.raises(InvalidInputError, match="pool") as error:
        Memory(pool, embeddings=HashEmbeddings())
    assert SECRET not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize("pool", [AsyncConnectionPool, SimpleNamespace])
def test_what_is_no_pool_is_refused(pool: Any) -> None:
    given = SimpleNamespace(getconn=print)
    if pool is AsyncConnectionPool:
        given = AsyncConnectionPool("postgresql://127.0.0.1:1/db", open=False)
    with pytest.raises(InvalidInputError, match="ConnectionPool"):
        Memory(given, embeddings=HashEmbeddings())


@pytest.mark.parametrize("chroma", NO_SERVER)
def test_what_is_no_chroma_server_is_refused_and_not_shown(
    chroma: Any, tmp_path: Path
) -> None:
    for opened in (Memory, ChromaStore):
        with pytest.raises(InvalidInputError, match="chroma must be") as error:
            opened(tmp_path / "m", chroma=chroma, embeddings=HashEmbeddings())
        # with the errors from which it came
        assert SECRET not in "".join(traceback.format_exception(error.value))
        assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "chroma",
    ["http://localhost:8000", "https://u:p%40w@host", "http://[::1]:8000/", None],
)
def test_a_chroma_server_or_none(chroma: Any) -> None:
    check_chroma(chroma)


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for place in ("loop", "loop/memory"):
        with pytest.raises(StorageError, match="symbolic links"):
            Memory(tmp_path / place, embeddings=HashEmbeddings())


URL = f"postgresql://app:{SECRET}@127.0.0.1:1/db"
ENCODED = f"postgresql%3A%2F%2Fapp:{SECRET}%40host/db"
GIVEN = [
    ["users", URL],
    ["users", ENCODED],
    ["users", f"host=127.0.0.1 password={SECRET}"],
    ["inspect", "m", URL],
    ["migrate", URL, URL],
    [URL],
    ["users", "-m", ENCODED],
    ["import", URL, "-u", "a"],
    ["export", "-u", "a", "-o", URL],
    ["search", "tea", "-u", "a", "-k", URL],
    ["erase", "-u", "a", "-m", URL],
    ["doctor", "-u", "a", "--chroma", f"ftp://u:{SECRET}@host"],
    ["chat", "--base-url", f"http://u:{SECRET}@127.0.0.1:1"],
    ["chat", "--base-url", f"u:{SECRET}@127.0.0.1:1"],
    ["chat", "--base-url", f"http:/u:{SECRET}@127.0.0.1"],
    ["chat", "--base-url", f"http://127.0.0.1:1/v1?key={SECRET}"],
    ["chat", "--base-url", f"http://u:1:{SECRET}"],
    ["chat", "--model", f"http://u:{SECRET}@h/v1"],
    ["chat", "--model", f"u:{SECRET}@h"],
    ["chat", "--model", f"openai:u:{SECRET}@h"],
    ["chat", "--model", f"u:s3/{SECRET}@h/v1"],
    ["demo", "--embeddings", f"u:{SECRET}@h"],
    ["import", "f.jsonl", "-u", URL],
    ["flush", "-u", URL],
    ["demo", "--embeddings", f"onnx:http://app:{SECRET}@h/m"],
    ["mcp", "-u", URL],
    ["mcp", "--http", "-u", "a", "--host", f"http://app:{SECRET}@h"],
    ["search", "tea", "-u", f"app:s3/{SECRET}@host/db"],
    ["users", "-m", "postgresql://app:my", f"{SECRET}@host/db"],
    ["users", "-m", "host=h", f"pass={SECRET}"],
    ["chat", "--base-url", f"http://127.0.0.1:1/v1&key={SECRET}"],
    ["users", "-m", f"app:s3/{SECRET}@host/db"],
    ["demo", "-m", "service=prod"],
    ["demo", "-m", f"app:s3/{SECRET}@host/db"],
    ["demo", "--embeddings", f"http://u:{SECRET}@h"],
    ["demo", "--embeddings", f"openai:http://u:{SECRET}@h"],
    ["import", "-u", "a", f"app:s3/{SECRET}@host/db"],
    ["mcp", "--http", "--user-header", "X", "--port", "99999"],
]
# options of commands that find a memory, and what is wrong in them only there
QUOTED = [
    ["search", "tea", "-u"],
    ["erase", "-u"],
    ["search", "tea", "-u", "a", "--by"],
    ["search", "tea", "-u", "a", "--shared"],
    ["usage", "--since"],
    ["usage", "-u"],
    ["expire", "-u"],
    ["move", "memory", "other", "-u"],
    ["move", "memory", "other", "-u", "a", "-u"],
    ["show", "-u", "a", "--as-of"],
    ["show", "-u", "a", "--session"],
    ["show", "-u", "a", "--record"],
    ["show", "-u", "a", "--file"],
    ["correct", "-u", "a", "I like tea."],
    ["mcp", "--http", "-u", "a", "--host"],
]


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: " ".join(given[:-1]))
def test_a_command_shows_no_url_that_it_cannot_use(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, given, env={"LANGMEM_GRAPH_EMBEDDINGS": "hash"})
    assert result.exit_code != 0
    assert SECRET not in result.output + str(result.exception)
    assert isinstance(result.exception, LangMemGraphError | SystemExit)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.enable_socket  # no server is asked
@pytest.mark.parametrize("given", QUOTED, ids=" ".join)
def test_a_command_shows_no_url_that_memory_does_not_know(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory("memory", embeddings="hash") as memory:
        memory.user("a").add({"role": "user", "content": "I like tea."}, session_id="s")
    given = [*given[:3], URL, *given[3:]] if given[0] == "correct" else [*given, URL]
    result = CliRunner().invoke(app, given, env={"LANGMEM_GRAPH_EMBEDDINGS": "hash"})
    assert result.exit_code != 0
    assert SECRET not in result.output + str(result.exception)
    assert isinstance(result.exception, LangMemGraphError | SystemExit)


def test_a_file_without_conversations_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("f.jsonl").touch()
    given = ["import", "f.jsonl", "-u", "a", "--embeddings", "hash"]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0
    assert "0 messages" in result.output


@pytest.mark.parametrize("name", ["MODEL", "EMBEDDINGS"])
def test_an_error_about_the_environment_shows_no_password(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    monkeypatch.setenv(f"LANGMEM_GRAPH_{name}", f"openai:http://u:{SECRET}@h/v1")
    with pytest.raises(LangMemGraphError) as error:
        Memory.from_environment()
    assert SECRET not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "query", ["user=app&password=p%40ss", "sslrootcert=/home/me%40corp/root.crt"]
)
def test_what_is_percent_encoded_in_a_query_is_read(query: str) -> None:
    assert _read_url(f"postgresql://127.0.0.1:1/db?{query}").host == "127.0.0.1"


@pytest.mark.parametrize("user", ["https://example.com/alice", "acme:bob@example.com"])
def test_a_user_may_be_named_by_a_url(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory("memory", embeddings="hash") as memory:
        memory.user(user).add({"role": "user", "content": "Tea."}, session_id="s")
    shown = CliRunner().invoke(app, ["show", "-u", user])
    assert shown.exit_code == 0
    assert user in shown.output
    other = CliRunner().invoke(app, ["erase", "--yes", "-u", f"{user}2"])
    assert "Nothing is stored of user" in str(other.exception)


def test_a_path_with_signs_of_a_url_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "user=7" / "10:30" / "me@home.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    given = ["import", str(file), "-u", "a", "--embeddings", "hash"]
    assert CliRunner().invoke(app, given).exit_code == 0
    missing = CliRunner().invoke(app, ["users", "-m", str(tmp_path / "user=7" / "no")])
    assert "There is no memory at" in str(missing.exception)


def test_a_wrong_scorer_is_not_quoted(tmp_path: Path) -> None:
    wrong: Any = f"http://app:{SECRET}@127.0.0.1:8080"
    model = ScriptedChatModel(answers={})
    with pytest.raises(InvalidInputError, match="scorer") as error:
        Memory(tmp_path / "m", embeddings="hash", model=model, causal_scorer=wrong)
    assert SECRET not in str(error.value)


def test_a_mirrors_password_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", f"http://app:{SECRET}@mirror")
    files = ModelFiles("owner/name", None)
    for kind in ("RepositoryNotFoundError", "RevisionNotFoundError", "OSError"):
        error = files._not_fetched(type(kind, (Exception,), {})())
        assert "http://mirror" in str(error)
        assert SECRET not in str(error)


class Refusing(HashEmbeddings):
    """An embedder whose server refuses, by an error that quotes its URL."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise OSError(f"401 for url 'http://app:{SECRET}@127.0.0.1:1/embed'")


def test_an_embedders_error_quotes_no_password(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings=Refusing()) as memory:
        report = memory.user("a").add(
            {"role": "user", "content": "Tea."}, session_id="s"
        )
    assert "OSError: its text is not shown" in str(report)
    assert SECRET not in str(report)


def test_a_wrong_model_or_embedder_is_not_quoted(tmp_path: Path) -> None:
    wrong: Any = {"base_url": f"http://app:{SECRET}@127.0.0.1:1"}
    for given in ({"model": wrong}, {"embeddings": wrong}, {"settings": wrong}):
        with pytest.raises(LangMemGraphError, match="dict") as error:
            Memory(tmp_path / "m", **given)
        assert SECRET not in "".join(traceback.format_exception(error.value))


class ServedEmbeddings(HashEmbeddings):
    """An embedder whose model is the URL of a server."""

    model = f"http://app:{SECRET}@127.0.0.1:1"


def test_an_embedders_url_is_no_name(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", embeddings=ServedEmbeddings()) as memory:
        memory.user("a").add({"role": "user", "content": "I like tea."}, session_id="s")
        assert SECRET not in str(memory.user("a").doctor().embedder)
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(SECRET.encode() in content for content in kept)


@pytest.mark.enable_socket  # nothing listens there
@pytest.mark.parametrize("url", ["http://app:{}@127.0.0.1:1", "http://127.0.0.1:a{}"])
def test_a_llama_servers_password_is_not_shown(url: str) -> None:
    server = LlamaServer(url.format(SECRET), timeout=1)
    with server, pytest.raises(CausalModelError, match="llama-server") as error:
        server.nll("a", "b")
    assert SECRET not in "".join(traceback.format_exception(error.value))


def test_the_environment_names_a_database_in_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POSTGRES_URI", f"postgresql+psycopg://a:{SECRET}@127.0.0.1:1/d")
    monkeypatch.setenv("LANGMEM_GRAPH_EMBEDDINGS", "hash")
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1/d") as error:
        Memory.from_environment()
    assert SECRET not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        "sslmode=require;password=S3CRET",
        "sslmode=require%20password=S3CRET",
        "gssencmode=disable,password%3DS3CRET",
        "hostaddr=127.0.0.1;password=S3CRET",
        "connect_timeout=1&user=ann;password=S3CRET",
    ],
)
def test_options_that_hold_a_password_are_refused(options: str) -> None:
    """libpq quotes an option's value in its error."""
    with pytest.raises(InvalidInputError) as refused:
        Memory(f"postgresql://u@/db?host=/nowhere&{options}", embeddings="hash")
    assert "S3CRET" not in str(refused.value)


@pytest.mark.enable_socket  # nothing listens there
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("service", "S3CRET"),
        ("target_session_attrs", "S3CRET"),
        ("require_auth", "none,S3CRET"),
        ("sslmode", " S3CRET  x"),
        ("keepalives", 'S3"CRET'),
    ],
)
def test_an_option_that_libpq_refuses_is_not_quoted(option: str, value: str) -> None:
    place = f"postgresql://u@/db?host=127.0.0.1&port=1&{option}={quote(value)}"
    with pytest.raises(StorageError, match=option) as refused:
        Memory(place, embeddings="hash").user("a")
    assert "CRET" not in "".join(traceback.format_exception(refused.value))


def test_an_option_for_a_password_is_none() -> None:
    place = "postgresql://u@/db?host=/nowhere&password=S3CRET&options=-c%20a%3Db"
    assert read_location(place) == place
