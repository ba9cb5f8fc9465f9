"""The errors of this library, each of whose messages names the cause and the
way out.
"""

import inspect
from typing import TYPE_CHECKING, NoReturn, SupportsIndex

if TYPE_CHECKING:
    from pydantic import ValidationError


MOST_QUOTED = 200
"""Characters of a caller's value that an error shows."""


class LangMemGraphError(Exception):
    """Base of all errors of this library."""


class InvalidInputError(LangMemGraphError, ValueError):
    """An argument cannot be used; nothing was stored or changed."""


class MissingUserError(InvalidInputError):
    """No usable user id was given. There is no default user."""


class RoomRefusedError(LangMemGraphError, PermissionError):
    """The application's `authorize` does not let this user read or write a
    shared room.
    """


class ImportFormatError(InvalidInputError):
    """A file to import is damaged or in an unknown format."""


class StorageError(LangMemGraphError):
    """The memory's directory or one of its files cannot be used."""


class NothingStoredError(StorageError, InvalidInputError):
    """Nothing is stored of this user, or the user was erased meanwhile."""


class MemoryLockedError(StorageError):
    """Another process holds this memory directory open for writing."""


class ReadOnlyError(StorageError):
    """A memory that was opened with `read_only=True` cannot be changed."""


class SchemaTooNewError(StorageError):
    """The ledger was written by a newer version of this library."""


class ForkedProcessError(StorageError):
    """A memory opened before `fork`, or used by a thread at that moment, was used in
    the child.
    """

    def __init__(self) -> None:
        super().__init__(
            "The process forked after this memory was opened, or while a thread used "
            "one; files "
            "and locks do not survive that. Fork first, or 'spawn', and open it in "
            "the child. For "
            "several processes at once: Memory(path, chroma='http://localhost:8000')."
        )


class ClosedMemoryError(StorageError):
    """The memory was closed."""


class IndexUnavailableError(LangMemGraphError):
    """Chroma cannot be reached or used; what the ledger holds is all there."""


class EmbeddingError(LangMemGraphError):
    """The embedder failed, or its answer is unusable."""


class EmbedderMismatchError(EmbeddingError):
    """The stored vectors were made by another embedder than the one given."""


class ModelFileError(EmbeddingError):
    """An embedding model's files are not on this machine and could not be fetched, or
    cannot be used.
    """


class ChatModelError(LangMemGraphError):
    """The chat model cannot be created, reached, or used for structured output."""


class CausalModelError(LangMemGraphError):
    """The local language model behind a causal scorer cannot be reached or used."""


class MissingExtraError(LangMemGraphError, ImportError):
    """A package is missing that an extra of this library installs."""


class NotCopied:
    """Base of what holds open files, which a copy would use and close as its own."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise InvalidInputError(
            "This holds open files of a memory and cannot be copied or pickled. Share "
            "the one "
            "object between threads; in another process open the memory there."
        )


class TokenCountWarning(UserWarning):
    """Tokens are estimated, because tiktoken's table is not available."""


def for_log(error: BaseException) -> str:
    """What a log may say about an error, without any user's text.

    Errors of other libraries, and those about input, may quote a text or an id, so only
    their class is named; reports hold the whole message. Errors about files and the
    index quote no texts.
    """
    kind = type(error).__name__
    if isinstance(error, InvalidInputError) or not isinstance(error, LangMemGraphError):
        return kind
    # the embedder has logged the whole sentence once
    if isinstance(error, ModelFileError):
        return (
            f"{kind}: the embedding model cannot be loaded, so only words are compared"
        )
    if error.__cause__ is None or isinstance(
        error, StorageError | IndexUnavailableError
    ):
        return f"{kind}: {error}"
    return f"{kind}, {for_log(error.__cause__)}"


def quoted(value: object) -> str:
    """The beginning of a caller's value, as an error shows it.

    Not every value has a `repr`: lists may be nested too deep for it, and whole numbers
    be too long.
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # also of foreign objects
        return f"a {type(value).__name__}"
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}…"


def shortened(text: str) -> str:
    """The beginning and the end of another library's words, which may quote a caller's
    value.
    """
    if len(text) <= 2 * MOST_QUOTED:
        return text
    return f"{text[:MOST_QUOTED]}…{text[-MOST_QUOTED:]}"


def explain(error: "ValidationError") -> str:
    """What pydantic found wrong, in one line: `start: not a time; time_zone:
    unknown`.
    """
    problems = []
    for detail in error.errors(
        include_url=False, include_context=False, include_input=False
    ):
        place = ".".join(map(str, detail["loc"]))
        message = detail["msg"].removeprefix("Value error, ")
        problems.append(f"{place}: {message}" if place else message)
    return "; ".join(problems)


def check_function(
    name: str, given: object, arguments: str, example: str, *, waits: bool = False
) -> None:
    """Raise InvalidInputError for what is no function of these, as far as its signature
    tells.

    A coroutine function is one only where it is awaited (`waits`).
    """
    try:
        fits = callable(given) and (waits or not inspect.iscoroutinefunction(given))
        if callable(given) and fits:
            inspect.signature(given).bind(*arguments.split(", "))
    except TypeError:
        fits = False
    except ValueError:  # built in, without a signature
        return
    if not fits:
        sort = "" if waits else ", and not async"
        raise InvalidInputError(
            f"{name} must be a function of ({arguments}){sort}, not {quoted(given)}. "
            f"As in {example}"
        )
