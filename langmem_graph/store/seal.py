"""A seal on Chroma's index files: what they were when Chroma was closed.

The library that reads these files does not check them: a damaged one brings the process down. So
they are compared with their seal before Chroma sees them. A process that was killed leaves no
seal; then they are taken as they are.
"""

import json
import zlib
from pathlib import Path

from langmem_graph.errors import IndexUnavailableError

SEAL = "langmem-graph.seal"
_BLOCK = 1 << 20


def seal(directory: Path) -> None:
    """Note every index file; called when Chroma has let go of them."""
    if directory.is_dir():
        try:
            (directory / SEAL).write_text(json.dumps(_sums(directory)), encoding="utf-8")
        except OSError:  # a full disk: without a seal the files are taken as they are
            (directory / SEAL).unlink(missing_ok=True)


def break_seal(directory: Path) -> None:
    """Take the seal away, since Chroma will change the files.

    Raises:
        IndexUnavailableError: a file is not what it was; the seal stays.
    """
    try:
        sealed = json.loads((directory / SEAL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    except ValueError:  # written by half
        sealed = None
    if sealed is not None and sealed != _sums(directory):
        raise IndexUnavailableError(
            f"The index files in {directory} are damaged. Run: langmem-graph rebuild --user USER"
        )
    (directory / SEAL).unlink(missing_ok=True)


def _sums(directory: Path) -> dict[str, int]:
    files = sorted(file for file in directory.glob("*/*") if file.is_file())
    return {str(file.relative_to(directory)): _sum(file) for file in files}


def _sum(file: Path) -> int:
    total = 0
    with file.open("rb") as content:
        while block := content.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total
