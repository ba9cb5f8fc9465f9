"""Ids of messages as models are shown them: of a UUID the end alone, since it takes many tokens.

LangGraph gives every message a UUID: about 20 tokens beside a sentence that often has fewer.
"""

import re

_UUID = re.compile(r"[\w-]*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-\d+)?(?:~\d+)?", re.I)
_END = 10
"""Characters, at least 32 bits of them by chance: no two of a user's messages share them."""
_SHOWN = re.compile(rf"#[\w~-]{{{_END}}}")


def shown_id(message_id: str) -> str:
    """The id, or `#` and the end of it."""
    return f"#{message_id[-_END:]}" if _UUID.fullmatch(message_id) else message_id


def end_of(shown: str) -> str | None:
    """How the id ends that was shown like this; None where it was shown whole."""
    return shown[1:] if _SHOWN.fullmatch(shown) else None
