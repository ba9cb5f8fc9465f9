"""Users, sessions, agents, messages and times as callers name them: checked, and in one
form.

Models are shown the end alone of the UUID that LangGraph gives every message: the whole
takes about 20 tokens, beside a sentence that often has fewer.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import product
from typing import TypeVar

from langmem_graph.errors import InvalidInputError, MissingUserError, quoted
from langmem_graph.metadata import check_value

Day = TypeVar("Day", bound=date)  # or a time of one
# in UTF-8; an index of PostgreSQL takes no entry of more than 2,704
MAX_ID_BYTES = 2_000
_UUID = re.compile(
    r"[\w-]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?(?:~\d+)?", re.I
)
_END = 10
"""Characters, at least 32 bits of them by chance: no two of a user's messages share
them.
"""
_SHOWN = re.compile(rf"#[\w~-]{{{_END}}}")
_UNIQUE_CHARS = 16


def is_unique(message_id: str) -> bool:
    """Whether no other conversation has this id: one such as `1` may begin anew with
    each.
    """
    return len(message_id) >= _UNIQUE_CHARS


def user_key(user_id: object) -> str:
    """The user's id as text: `7` and `"7"` are the same user."""
    hint = " Pass the id of the person whose memory this is: memory.user('alice')."
    return text_key(user_id, "user id", MissingUserError, hint)


def folder_name(user_id: str) -> str:
    """The hash of the id: any id makes a safe name, and none contains another."""
    return hashlib.sha256(user_id.encode(errors="surrogateescape")).hexdigest()


def session_key(session_id: object) -> str:
    """The session's id as text."""
    return text_key(session_id, "session_id", InvalidInputError)


def item_key(given: object) -> str:
    """The id of one record, message or session as text."""
    return text_key(given, "id", InvalidInputError)


def new_session_key(session_id: object) -> str:
    """The session's id as text, if messages can be stored under it."""
    key = session_key(session_id)
    if len(key.encode()) > MAX_ID_BYTES:
        raise InvalidInputError(
            f"The session_id is longer than {MAX_ID_BYTES:,} bytes."
        )
    return key


def agent_key(agent_id: object) -> str | None:
    """The agent's id as text, if there is one."""
    if agent_id is None:
        return None
    return short_key(agent_id, "agent_id", 'agent_id="planner"')


def short_key(given: object, what: str, example: str) -> str:
    """A name that is stored like a value of metadata, as text; the error shows an
    example.
    """
    text = text_key(given, what, InvalidInputError, f" As in {example}")
    return str(check_value(what, text, example))


def text_key(
    given: object, what: str, error: type[InvalidInputError], hint: str = ""
) -> str:
    """A name that was given as text or as a whole number, as text."""
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise error(
            f"The {what} must be a non-empty string or an integer, not {quoted(given)}."
            f"{hint}"
        )
    text = written(given, what, error)
    if not text.strip():
        raise error(
            f"The {what} is empty. Give a non-empty string or an integer.{hint}"
        )
    if not is_unicode(text):
        raise error(
            f"The {what} holds half of a character (a lone surrogate): {text!r}.{hint}"
        )
    return text


def written(given: str | int, what: str, error: type[Exception]) -> str:
    """A text, or a whole number as one."""
    try:
        return str(given)
    except ValueError:
        raise error(f"The {what} is a number of too many digits.") from None


def is_unicode(text: str) -> bool:
    """False for half of a character (a lone surrogate), which no file can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def message_ids(ids: object, what: str = "ids") -> list[str]:
    """One id or several as a list of texts."""
    several = [ids] if isinstance(ids, str | int) else ids
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        raise InvalidInputError(
            f"{what} must be a message id or a list of them, not {quoted(ids)}."
        )
    return [text for given in several if is_unicode(text := as_id(given))]


def as_id(given: object) -> str:
    """An id as text; of what has none, such as a number of too many digits, one that
    names nothing.
    """
    try:
        return str(given)
    except (ValueError, RecursionError):
        return ""


def to_utc(value: object) -> datetime:
    """A time as UTC. Takes datetime, date, ISO text or epoch seconds; naive times are
    UTC.
    """
    try:
        time = (
            datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        )
        if isinstance(time, int | float) and not isinstance(time, bool):
            return datetime.fromtimestamp(time, UTC)
        if isinstance(time, date) and not isinstance(time, datetime):
            return datetime(time.year, time.month, time.day, tzinfo=UTC)
        if not isinstance(time, datetime):
            raise ValueError(time)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"Not a time: {quoted(value)}. Give a datetime, ISO 8601 text or seconds "
            "since "
            "1970."
        ) from error


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """A time on the clocks of a zone; unchanged where these leave the calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment


def moved(starts: Iterable[Day], lengths: Iterable[timedelta]) -> set[Day]:
    """Every start plus every length; none before the year 1 or after 9999."""
    every = (_moved(start, length) for start, length in product(starts, lengths))
    return {one for one in every if one is not None}


def window_edge(begin: datetime, length: timedelta) -> datetime:
    """The time so much later or earlier, or else the calendar's last or first one."""
    edge = (datetime.min if length < timedelta(0) else datetime.max).replace(tzinfo=UTC)
    return _moved(begin, length) or edge


def _moved(start: Day, length: timedelta) -> Day | None:
    try:
        return start + length
    except OverflowError:
        return None


def days_that_exist(parts: Iterable[tuple[int, int, int]]) -> list[date]:
    """Days of a year, month and day of the month; no 31st of June, no year 0."""
    days = list[date]()
    for year, month, day in parts:
        with suppress(ValueError):
            days.append(date(year, month, day))
    return days


def shown_id(message_id: str) -> str:
    """The id, or `#` and the end of it."""
    return f"#{message_id[-_END:]}" if _UUID.fullmatch(message_id) else message_id


def end_of(shown: str) -> str | None:
    """How the id ends that was shown like this; None where it was shown whole."""
    return shown[1:] if _SHOWN.fullmatch(shown) else None
