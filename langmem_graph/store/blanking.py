"""Chroma's index files without what the process's memory held before.

Chroma (hnswlib) makes a new index by writing room for a hundred vectors that it has not filled:
whatever lay in that memory before goes to disk, fragments of texts of any user among it. All other
bytes it writes are its own. So the unused rest of these files is blanked as soon as they are made.
"""

import os
import struct
from pathlib import Path

_HEADER = struct.Struct("<iQQQQ")  # version, offset, room for, vectors held, bytes of one
_VERSION = 1  # of a format with other fields nothing is touched
_LENGTH_BYTES = 4  # one float a vector


def blank_unused(directory: Path) -> None:
    """Blank what lies behind the last vector in every index below a Chroma directory.

    Nobody may write there meanwhile: the number of vectors is read first.
    """
    for header in directory.glob("*/header.bin"):
        fields = header.read_bytes()[: _HEADER.size]
        if len(fields) < _HEADER.size:
            continue  # damaged; Chroma will say so
        version, _, _, held, size = _HEADER.unpack(fields)
        if version == _VERSION:
            _blank_behind(header.with_name("data_level0.bin"), held * size)
            _blank_behind(header.with_name("length.bin"), held * _LENGTH_BYTES)


def _blank_behind(file: Path, used: int) -> None:
    """Cut the file and give it its size again: what comes back is zeros."""
    size = file.stat().st_size if file.exists() else 0
    if size > used:
        os.truncate(file, used)
        os.truncate(file, size)
