"""URLs of servers and databases, whose passwords no error and no log may show."""

import re
from base64 import b64encode
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from langmem_graph.errors import InvalidInputError

_CONNECTION = re.compile(
    r"(?!(?<=^[A-Za-z]):[/\\]):[^@]*@|(?:host|server|dbname|user|password|passwd|pwd)\s*=",
    re.IGNORECASE,
)
"""What a connection string holds, and the name of no file should; `C:/me@home` is
one."""
_PASSWORD = re.compile(
    r"//.*@|(?:password|passwd|passphrase|pass|pwd|key|token|secret)\s*=",
    re.IGNORECASE | re.DOTALL,
)
_ENCODED_AGAIN = re.compile(r"%(?:25)+")
"""A percent sign that was percent-encoded, however often."""

_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)
"""What stands before the host of a URL."""
_PLAIN_URL = re.compile(r"https?://[^@?#&;\s]*")
NOT_SHOWN = "not shown, as it may hold a password"


def decoded(text: str) -> str:
    """A text without percent-encoding, however often it was encoded, and without
    full-width signs.
    """
    return normalize("NFKC", unquote(_ENCODED_AGAIN.sub("%", text)))


def may_hold_password(text: str) -> bool:
    """Whether a text reads as a URL or a connection string, percent-encoded or not."""
    plain = decoded(text)
    return "://" in plain or _CONNECTION.search(plain) is not None


def holds_password(text: str) -> bool:
    """Whether a text reads as a URL with a user, or has a password named as such."""
    plain = decoded(text).replace("\\/", "/")  # as JSON writers may escape a slash
    return _PASSWORD.search(plain) is not None


def shown_url(url: str) -> str:
    """A server's URL as errors may quote it: without its user, or not at all."""
    bare = _CREDENTIALS.sub("//", decoded(url))
    try:
        has_port = urlsplit(bare).port != 0
    except ValueError:  # the rest of a password
        has_port = False
    return bare if has_port and _PLAIN_URL.fullmatch(bare) else NOT_SHOWN


def login_apart(url: str) -> tuple[str, dict[str, str]]:
    """A server's URL without user and password, and the header that sends these.

    httpx logs the URL of each request, with the password in it.

    Raises:
        InvalidInputError: it is no URL of a server, or has a query, which may hold a
            key; paths are appended to the URL, so that a query never works.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # the rest of a password
        parts = urlsplit("")
    is_server = parts.scheme in ("http", "https") and parts.netloc
    if not is_server or parts.path.startswith("//"):
        raise InvalidInputError(
            "A server's URL begins with http:// or https:// and its host."
        )
    if parts.query or parts.fragment or ";" in parts.path:
        raise InvalidInputError(
            "A server's URL ends with its path, without '?', '#' or ';'. Give a key by "
            "the argument or the environment variable for it."
        )
    login, separator, host = parts.netloc.rpartition("@")
    if not separator:
        return url, {}
    name, _, password = login.partition(":")
    try:
        credentials = f"{unquote(name)}:{unquote(password)}".encode()
    except UnicodeEncodeError:  # half of a character
        raise InvalidInputError(
            "The user or password of a server's URL cannot be encoded."
        ) from None
    encoded = b64encode(credentials).decode()
    return parts._replace(netloc=host).geturl(), {"Authorization": f"Basic {encoded}"}
