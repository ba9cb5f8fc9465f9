"""Looking for words that must be gone, in every file below a directory."""

import re
from collections.abc import Iterable
from pathlib import Path


def hits(where: Path, words: Iterable[str]) -> list[tuple[str, str]]:
    """File and word, for each word that a file (or its name) still holds, in any letter case."""
    wanted = [word.lower() for word in words]
    found = []
    for file in sorted(file for file in where.rglob("*") if file.is_file()):
        held = file.read_bytes().lower() + str(file.relative_to(where)).lower().encode()
        held += held.decode("utf-16-le", "ignore").encode("utf-8", "ignore")
        found += [(file.name, word) for word in wanted if word.encode() in held]
    return found


def runs_of(where: Path, byte: int, length: int) -> list[tuple[str, int]]:
    """File and number of bytes, for each file in which so many equal bytes follow each other."""
    found = []
    for file in sorted(file for file in where.rglob("*") if file.is_file()):
        runs = re.findall(bytes([byte]) + b"{%d,}" % length, file.read_bytes())
        found += [(file.name, sum(map(len, runs)))] if runs else []
    return found
