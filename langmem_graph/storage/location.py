"""Where a memory is kept: in a directory, or in a PostgreSQL database."""

import os
import re
from pathlib import Path
from typing import Any

from langmem_graph.errors import InvalidInputError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/.*)", re.DOTALL)
"""At least two characters, so that `C:/memory` is a directory."""
_CREDENTIALS = re.compile(
    r":[^/\\:@]*@|(?:host|server|dbname|user|password|passwd|pwd)\s*=", re.IGNORECASE
)
"""What a connection string holds, and the name of no directory should."""
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
    text = os.fspath(given)
    if not isinstance(text, str):
        raise InvalidInputError(f"{_WAYS}, as text.")
    text = text.strip()
    if not text:
        raise InvalidInputError(f"The place of the memory is empty. {_WAYS}.")
    named = _SCHEME.match(text)
    if named is None:
        if "://" in text:  # such as a URL in quotation marks
            raise InvalidInputError(f"A URL must begin with its scheme. {_WAYS}.")
        if _CREDENTIALS.search(text):
            raise InvalidInputError(f"This reads as a connection string. {_WAYS}.")
        return Path(text).expanduser()
    scheme, rest = named.group(1).lower(), named.group(2)
    is_postgres = scheme.partition("+")[0] in ("postgresql", "postgres")
    if is_postgres and isinstance(given, str) and rest.startswith("//"):
        return f"postgresql:{rest}"
    raise InvalidInputError(f"No memory is kept at {scheme}://. {_WAYS}.")


def is_database(location: Any) -> bool:
    """Whether a location that was read is a database, not a directory."""
    return not isinstance(location, Path)
