"""A lock that is fair to those who wait."""

import threading


class FairLock:
    """A lock that a thread which let go of it gets again only after one that waited.

    A plain lock may be taken again before anybody else wakes up: a large add, which works batch by
    batch, would keep a small one waiting to its end.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._own = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._own.acquire()

    def __exit__(self, *error: object) -> None:
        self._own.release()
