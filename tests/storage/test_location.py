"""What may be given as the place of a memory."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from langmem_graph import ChromaStore, Memory
from langmem_graph.cli.commands import app
from langmem_graph.errors import InvalidInputError
from langmem_graph.storage.location import read_location
from langmem_graph.testing import HashEmbeddings

SECRET = "s3cret"
REFUSED = [
    f"mysql://app:{SECRET}@host/db",
    f"redis://:{SECRET}@host",
    f"http://app:{SECRET}@localhost:8000",
    "sqlite:///memory.db",
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
    "",
    "  ",
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


@pytest.mark.parametrize("given", ["memory", "./a b/c", "C:/memory", "C:\\memory"])
def test_a_path_is_a_directory(given: str) -> None:
    assert read_location(given) == Path(given)
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
