"""Metadata of messages: what an application says about them, by which they can be
filtered.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from langmem_graph.errors import InvalidInputError, quoted

Value = str | bool | int | float
RESERVED = ("at", "role", "origin", "agent_id", "session_id", "room", "author")
"""Keys that every message has without being told, by which filters may ask for it."""
LONGEST = 500  # characters of a text: a database's index takes no longer ones
MOST_KEYS = 32
EXACT = 2**53  # whole numbers beyond it are not told apart by every engine
EXAMPLE = 'metadata={"project": "atlas", "priority": 2, "draft": False}'
_KEY = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)


def checked_metadata(given: object) -> dict[str, Value]:
    """The metadata of a message; InvalidInputError for what cannot be stored or
    filtered.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"metadata must be a dict, not {quoted(given)}. As in {EXAMPLE}"
        )
    if len(given) > MOST_KEYS:
        raise InvalidInputError(
            f"metadata has {len(given)} keys; at most {MOST_KEYS} are kept. As in "
            f"{EXAMPLE}"
        )
    for key in given:
        if check_key(key) in RESERVED:
            raise InvalidInputError(
                f"The key {quoted(key)} of metadata is reserved: every message has it "
                "already. Choose "
                f"another name. Reserved are {', '.join(RESERVED)}. As in {EXAMPLE}"
            )
    return {str(key): check_value(str(key), value) for key, value in given.items()}


def check_key(key: object) -> str:
    """The key of a value, if it may be one."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInputError(
            f"{quoted(key)} cannot be a key of metadata. A key has 1 to 64 letters, "
            "digits, '_', '.' and '-', and begins with a letter or '_', as in "
            "'project'."
        )
    return key


def check_value(key: str, value: Any, example: str = EXAMPLE) -> Value:
    """The value of a key, if it may be one: a text, a number, True or False."""
    problem = "must be a text, a number, True or False"
    if isinstance(value, str):
        if len(value) <= LONGEST and _is_plain(value):
            return value
        problem = f"must be a text of at most {LONGEST} characters, without '\\0'"
    elif isinstance(value, bool | int | float):
        if abs(value) <= EXACT:  # neither infinite nor no number
            return value
        problem = "must be a number from -2**53 to 2**53; give a longer one as a text"
    raise InvalidInputError(
        f"The value of {quoted(key)} {problem}, not {quoted(value)}. As in {example}"
    )


def _is_plain(text: str) -> bool:
    return "\0" not in text and not any(
        "\ud800" <= letter <= "\udfff" for letter in text
    )


def in_common(several: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """What all of these have: the keys whose values are equal, and of one type, in
    each.
    """
    first, *others = [*several] or [{}]
    same = {json.dumps(pair) for pair in first.items()}
    for other in others:
        same &= {json.dumps(pair) for pair in other.items()}
    return {
        key: value for key, value in first.items() if json.dumps((key, value)) in same
    }
