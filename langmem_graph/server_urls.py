"""URLs and keys of servers and databases, of which no error and no log may show the
password.
"""

import os
import re
from base64 import b64encode
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from langmem_graph.errors import InvalidInputError, LangMemGraphError

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
_OF_URL = re.compile(r"\b(?:urls?|port|scheme|proxy|netloc)\b", re.IGNORECASE)
_OF_HEADER = re.compile(r"\billegal header\b", re.IGNORECASE)
"""What HTTP clients say of a header, such as that of a key, and quote it."""
_OPENAI_ADDRESSES = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
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
    is_plain = _PLAIN_URL.fullmatch(bare) and not holds_password(bare)
    return bare if has_port and is_plain else NOT_SHOWN


def as_shown(error: BaseException) -> tuple[str, BaseException | None]:
    """An error's kind and text, and the error as the cause of another one.

    Of one that may quote a password its kind alone, and no cause, as a traceback shows
    it. Clients also read the proxies of the environment, and quote them.
    """
    text = f"{type(error).__name__}: {shown_text(error)}"
    return text, None if _may_quote_password(error) else error


def shown_text(error: BaseException) -> str:
    """An error's text, or that it is not shown, as it may quote a password."""
    if not _may_quote_password(error):
        return str(error)
    return (
        f"its text is {NOT_SHOWN}. Check the URL and the key given, and the proxies of "
        "the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)"
    )


def _may_quote_password(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, is about a URL or a header, or quotes a
    password.
    """
    if error is None or isinstance(error, LangMemGraphError):
        return False
    is_of_url = isinstance(error, ValueError) and _OF_URL.search(f"{error}")
    return bool(
        type(error).__name__ == "InvalidURL"  # of httpx, or of what it is called next
        or is_of_url
        or _OF_HEADER.search(f"{error}")
        or holds_password(f"{error}")
        or _may_quote_password(error.__cause__ or error.__context__)
    )


def check_address(client: object) -> None:
    """Raise InvalidInputError for a client of OpenAI whose address, which it takes from
    the environment, holds a password.
    """
    if type(client).__module__.partition(".")[0] != "langchain_openai":
        return
    for name in _OPENAI_ADDRESSES:
        if holds_password(os.environ.get(name, "")):
            raise InvalidInputError(
                f"{name} holds a user or a key, which the client of OpenAI writes into "
                "logs. Leave it out: load_chat_model(base_url=…) sends a login apart "
                "from the URL, and a key is given as OPENAI_API_KEY."
            )


def bare_key(key: str) -> str:
    """A key without the line end of the file that it was read from.

    Raises:
        InvalidInputError: no header can hold it. The error does not quote it, as those
            of HTTP clients do.
    """
    bare = key.strip()
    if not (bare.isascii() and bare.isprintable()):
        raise InvalidInputError(
            "The key has a character that no header can hold, such as a line end or a "
            "typographic quotation mark. Copy the key alone."
        )
    return bare


def login_apart(url: str) -> tuple[str, dict[str, str]]:
    """A server's URL without user and password, and the header that sends these.

    httpx logs the URL of each request, with the password in it.

    Raises:
        InvalidInputError: it is no URL of a server, or has a query, which may hold a
            key; paths are appended to the URL, so that a query never works.
    """
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
    except ValueError:  # the rest of a password
        parts = urlsplit("")
    login, separator, host = parts.netloc.rpartition("@")
    # "@" and what separates options: a login that was percent-encoded as a whole
    has_host = bool(host) and not any(sign in decoded(host) for sign in "@=;&")
    is_server = parts.scheme in ("http", "https") and has_host
    # a login whose "/" was not encoded ends within the path
    holds_login = parts.path.startswith("//") or "@" in decoded(parts.path)
    if not is_server or holds_login:
        raise InvalidInputError(
            "A server's URL begins with http:// or https:// and its host; its user and "
            "password are percent-encoded, '/' as %2F."
        )
    has_options = parts.query or parts.fragment or ";" in parts.path
    if has_options or holds_password(parts.path):
        raise InvalidInputError(
            "A server's URL ends with its path, without '?', '#', ';' or a password. "
            "Give a key by the argument or the environment variable for it."
        )
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
