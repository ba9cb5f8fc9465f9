"""A connection to PostgreSQL that waits for no answer for ever, also where its server
is frozen.
"""

import math
from collections.abc import Generator
from time import monotonic
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")
STATEMENT_SECONDS = 120
"""After these the server ends a statement."""
ANSWER_SECONDS = STATEMENT_SECONDS + 10.0
"""After these a server that has not even done that is taken to be lost."""
# runs of a statement on one connection, after which the server keeps its plan
PREPARE_AFTER = 5
LOST_HOST = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""How soon the system notices that the server's host is gone."""


class Connection(psycopg.Connection[Any]):
    """A connection whose waits end; it is closed by one that took too long."""

    answer_seconds = ANSWER_SECONDS

    def wait(self, gen: Generator[Any, Any, T], *limits: Any, **options: Any) -> T:
        """What psycopg does until an answer has come, for so long."""
        return super().wait(self._limited(gen), *limits, **options)

    def _limited(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        until = monotonic() + self.answer_seconds
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and monotonic() > until:
                    self.close()
                    raise psycopg.OperationalError("the server does not answer")
                wanted = steps.send(ready)
        except StopIteration as end:
            answer: T = end.value
            return answer


def remove_time_limit(connection: Any, _: object = None) -> None:
    """Wait for each answer of a connection without a limit."""
    connection.answer_seconds = math.inf


def prepare_statements(connection: Any, _: object = None) -> None:
    """Let the server keep plans, unless a pooler may give each transaction another
    connection.

    A pooler such as PgBouncer names a process of its own invention, and not the
    server's.
    """
    own = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
    connection.rollback()
    if own == connection.info.backend_pid:
        connection.prepare_threshold = PREPARE_AFTER
