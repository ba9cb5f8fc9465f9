"""A process that reads a backlog with a slow model, until it is interrupted or killed.

Run as `python -m tests.support.killed_flush DIRECTORY PROGRESS`: it adds a line to the file
PROGRESS after each batch, and at the end one that says how it ended.
"""

import os
import signal
import sys
import time
from pathlib import Path

from langmem_graph import Memory
from langmem_graph.reports import FlushProgress
from tests.support.backlog import noting

CALL_SECONDS = 0.3


def main(path: str, progress: str) -> None:
    """Flush; an interrupt closes the memory and ends the process with exit code 3."""
    told = os.open(progress, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(word: object) -> None:
        os.write(told, f"{word}\n".encode())

    def on_progress(done: FlushProgress) -> None:
        tell(done.read)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    model = noting([], lambda: time.sleep(CALL_SECONDS))
    try:
        with Memory(Path(path), model=model, embeddings="hash") as memory:
            memory.user("u").flush(on_progress)
    except KeyboardInterrupt:
        tell("interrupted")
        sys.exit(3)
    tell("ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
