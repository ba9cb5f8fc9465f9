"""Where a memory is kept: in a directory, or in a PostgreSQL database."""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from langmem_graph.errors import InvalidInputError
from langmem_graph.ids_and_times import is_unicode
from langmem_graph.server_urls import decoded, holds_password, may_hold_password

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)", re.DOTALL)
"""At least two characters, so that `C:/memory` is a directory."""
_BEGINS_AS_PATH = re.compile(r"\.{0,2}[/\\](?![/\\])|~|[A-Za-z]:[/\\]")
_IN_NO_NAME = re.compile(r"[@=:$%<>{}\x00-\x1f\x7f]")
"""Signs of connection strings and of variables: a path with one has to begin as one."""
_WAYS = "Give a directory, or a database as postgresql://USER@HOST/NAME"


def read_location(given: Any) -> Any:
    """Read what a user gives as the place of a memory.

    Args:
        given: a directory, the URL of a PostgreSQL database in any of SQLAlchemy's
            spellings (`postgresql+psycopg://…`), or an application's own
            `psycopg_pool.ConnectionPool`.

    Returns:
        A `Path`; or for a database its URL as `postgresql://…`, or the pool.

    Raises:
        InvalidInputError: it is empty, or names another kind of place. The error quotes
            nothing that could hold a password.
    """
    if hasattr(given, "getconn"):
        return given
    if not isinstance(given, str | os.PathLike):
        raise InvalidInputError(f"{_WAYS}, not a {type(given).__name__}.")
    text = _text_of(given)
    named = _SCHEME.match(text)
    if named is None:
        _check_path(text, isinstance(given, str))
        return _directory(text)
    scheme = named.group(1).lower()
    rest = named.group(2)
    is_postgres = scheme.partition("+")[0] in ("postgresql", "postgres")
    if is_postgres and isinstance(given, str) and rest.startswith("//"):
        if not is_unicode(rest):
            raise InvalidInputError(f"This URL is no valid text. {_WAYS}.")
        # libpq ends its connection string there, and drops the port and `sslmode`.
        if "\0" in unquote(rest):
            raise InvalidInputError(f"No place has a zero character in it. {_WAYS}.")
        _check_options(rest)
        return f"postgresql:{rest}"
    raise InvalidInputError(f"No memory is kept at {scheme}://. {_WAYS}.")


def _check_options(rest: str) -> None:
    """Refuse an option whose value holds a password: libpq quotes values in errors."""
    _, _, options = rest.partition("?")
    for option in options.split("&"):
        _, _, value = option.partition("=")
        if holds_password(value):
            raise InvalidInputError(
                "An option of this URL reads as two: options are separated by '&', and "
                "signs of a password are percent-encoded."
            )


def is_database(location: Any) -> bool:
    """Whether a location that was read is a database, not a directory."""
    return not isinstance(location, Path)


def _text_of(given: Any) -> str:
    try:
        text = os.fspath(given)
    except TypeError:  # a path-like object whose path is neither text nor bytes
        text = None
    if not isinstance(text, str):
        raise InvalidInputError(f"{_WAYS}, as text.")
    text = text.strip()
    if not text:
        raise InvalidInputError(f"The place of the memory is empty. {_WAYS}.")
    if "\0" in text:
        raise InvalidInputError(f"No place has a zero character in it. {_WAYS}.")
    return text


def reads_as_path(text: str) -> bool:
    """Whether a text begins as a path does, such as /data/user=7, and is no URL."""
    is_url = "://" in decoded(text)
    return not is_url and _BEGINS_AS_PATH.match(text) is not None


def _check_path(text: str, is_text: bool) -> None:
    """Refuse what reads as a database's place, and would become a directory."""
    if "://" in decoded(text):  # such as a URL in quotation marks
        raise InvalidInputError(f"A URL must begin with its scheme. {_WAYS}.")
    if reads_as_path(text):
        return
    if may_hold_password(text):
        raise InvalidInputError(f"This reads as a connection string. {_WAYS}.")
    if is_text and _IN_NO_NAME.search(decoded(text)):
        raise InvalidInputError(
            f"This reads as a connection string or a variable. {_WAYS}; a directory "
            "whose name has such signs (@ = : $ % < > { }) begins with ./ or /."
        )


def _directory(text: str) -> Path:
    try:
        os.fsencode(text)
        return Path(text).expanduser()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"No directory can have this name, which is no valid text. {_WAYS}."
        ) from None
    except RuntimeError as error:
        raise InvalidInputError(
            "The home directory that this path begins with is unknown. Give the "
            "directory's whole path."
        ) from error
