"""What commands of `langmem-graph` have in common: options, and the memory that they
open.
"""

import json
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from langmem_graph.errors import (
    InvalidInputError,
    LangMemGraphError,
    MemoryLockedError,
    StorageError,
)
from langmem_graph.memory import Memory
from langmem_graph.rooms import room_names, shared_key, shared_name
from langmem_graph.server_urls import decoded, holds_password, may_hold_password
from langmem_graph.storage.location import read_location, reads_as_path

_NOT_SHOWN = (
    "What is given reads as a URL or a connection string, for which there is no place "
    "here; it is not shown, as it may hold a password. Name a database with --memory, "
    "and see --help."
)


def _no_url(given: str | None) -> str | None:
    """Refuse a URL with a password in another option's place."""
    if given is not None and holds_password(given):
        raise InvalidInputError(_NOT_SHOWN)
    return given


_User = typer.Option(
    "--user", "-u", envvar="LANGMEM_GRAPH_USER", help="Whose memory.", callback=_no_url
)
UserOption = Annotated[str, _User]
AnyUserOption = Annotated[str | None, _User]
OneUserOption = Annotated[
    str | None,
    typer.Option(
        "--user", "-u", help="Only this user; default: all.", callback=_no_url
    ),
]
HostOption = Annotated[
    str, typer.Option(help="With --http: where to listen.", callback=_no_url)
]
MemoryOption = Annotated[
    str,
    typer.Option(
        "--memory",
        "--dir",
        "-m",
        envvar=["LANGMEM_GRAPH_DIR", "POSTGRES_URI"],
        help="The memory's directory, or the postgresql:// URL of its database.",
    ),
]
ChromaOption = Annotated[
    str | None,
    typer.Option(
        "--chroma", envvar="LANGMEM_GRAPH_CHROMA", help="URL of a Chroma server."
    ),
]
EmbeddingsOption = Annotated[
    str | None,
    typer.Option(
        "--embeddings", envvar="LANGMEM_GRAPH_EMBEDDINGS", help="Default: MiniLM."
    ),
]
BaseUrlOption = Annotated[
    str | None, typer.Option("--base-url", help="OpenAI-compatible server.")
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", envvar="LANGMEM_GRAPH_MODEL", help="Reads and reasons."),
]
YesOption = Annotated[
    bool,
    typer.Option("--yes", help="Read without asking, however many calls it takes."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="JSON",
        help='Only what passes this filter, as {"project": "atlas"}.',
    ),
]
SharedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shared", metavar="ROOM", help="Look in this shared room too; repeatable."
    ),
]
DEFAULT_MEMORY = "memory"
# `except` takes a tuple; typer has moved the class of these
_USAGE_ERRORS: Any = typer.BadParameter.__bases__


class Commands(TyperGroup):
    """The commands; no error about what was given to them quotes a password."""

    def make_context(
        self, info_name: Any, args: list[str], *given: Any, **options: Any
    ) -> Any:
        """Read what is given to all commands."""
        words = [*args, os.environ.get("LANGMEM_GRAPH_USER", "")]
        with _quoting_no_password():
            context = super().make_context(info_name, args, *given, **options)
        context.meta[__name__] = words
        return context

    def invoke(self, ctx: Any) -> Any:
        """Read what is given to one command, and run it."""
        with _quoting_no_password(ctx.meta[__name__]):
            return super().invoke(ctx)


@contextmanager
def _quoting_no_password(words: Sequence[str] = ()) -> Iterator[None]:
    """Show no error that quotes a URL or a connection string: none about the use of a
    command, and none about one of these words that holds a password.
    """
    try:
        yield
    except _USAGE_ERRORS as error:
        text = error.format_message()
        # of a password with a space the shell makes two words
        if not (may_hold_password(text) or holds_password(text) or "@" in text):
            raise
        raise InvalidInputError(_NOT_SHOWN) from None
    except (LangMemGraphError, OSError) as error:
        text = str(error)
        given = [one for word in words for one in _values(word) if one in text]
        if not any(map(_is_secret, given)):
            raise
        raise InvalidInputError(_NOT_SHOWN) from None


def _is_secret(word: str) -> bool:
    """Whether a word may hold a password; `acme:bob@example.com` is a user, and so is
    `https://example.com/bob`.
    """
    if reads_as_path(word):
        return False
    is_place = "/" in word and re.search("[@=]", decoded(word)) is not None
    return holds_password(word) or (is_place and may_hold_password(word))


def _values(word: str) -> list[str]:
    """What a word of the command line gives: `--user=x`, `-ux` or `x`."""
    value = word.partition("=")[2] if word.startswith("--") else word[2:]
    return [word, value] if word.startswith("-") else [word]


def check_file(file: Path | None) -> Path | None:
    """Refuse a URL that is given in the place of a file, without showing it."""
    text = "" if file is None else str(file)
    if not reads_as_path(text) and may_hold_password(text):
        raise InvalidInputError(
            "This reads as a URL or a connection string. Give a file here, and a "
            "database with --memory."
        )
    return file


def shown(place: str) -> str:
    """A memory's place as messages may name it."""
    location = read_location(place)
    return str(location) if isinstance(location, Path) else "the database"


def read_json(given: str | None, name: str) -> Any:
    """What an option holds as JSON; None where it is not given."""
    try:
        return None if given is None else json.loads(given)
    except (ValueError, RecursionError) as error:
        example = '{"project": "atlas"}'
        raise InvalidInputError(
            f"{name} is not JSON ({error}). As in {name} '{example}'"
        ) from error


@contextmanager
def opened(
    directory: str,
    chroma: str | None = None,
    embeddings: str | None = None,
    *,
    model: Any = None,
    read_only: bool = False,
) -> Iterator[Memory]:
    """An open memory; with `read_only` it works beside a running app.

    Shared rooms are open to whoever runs the command, who can read all files anyway.
    """
    options: dict[str, Any] = {"read_only": read_only, "authorize": lambda *_: True}
    location = read_location(directory)
    is_missing = isinstance(location, Path) and not location.is_dir()
    if read_only and is_missing:
        raise StorageError(
            f"There is no memory at {location}. Name its directory with --memory (or "
            "--dir, -m, "
            "$LANGMEM_GRAPH_DIR); `langmem-graph import` and `chat` make a new one."
        )
    try:
        memory = Memory(
            directory, chroma=chroma, model=model, embeddings=embeddings, **options
        )
    except MemoryLockedError as error:
        raise MemoryLockedError(
            f"{directory} is open for writing in another process, perhaps your "
            "application: end "
            "it first, or do this in it. search, show, explain, inspect, users, usage "
            "and export "
            "work beside it; so does everything where both use one Chroma server "
            "(--chroma)."
        ) from error
    with memory:
        yield memory


def known_rooms(memory: Memory, given: Sequence[str] | None) -> tuple[str, ...]:
    """The rooms that `--shared` names; an error for one in which nothing is stored."""
    # same package
    named = room_names(given or ())
    directory = memory._services.directory
    unknown = next(
        (room for room in named if not directory.has(shared_key(room))), None
    )
    if unknown is not None:
        known = [str(shared_name(key)) for key in directory.users(shared=True)]
        nearest = get_close_matches(unknown, known, 1, 0.0) or ["team-42"]
        raise InvalidInputError(
            f"The shared room {unknown!r} holds nothing in this memory. Name one that "
            "does, as in "
            f"--shared {shlex.quote(nearest[0])}; `langmem-graph users` lists them."
        )
    return named
