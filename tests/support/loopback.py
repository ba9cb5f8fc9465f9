"""Sockets of this machine alone, and a free port of it."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager


@contextmanager
def loopback_alone() -> Iterator[None]:
    """Let a test reach this machine, and nothing else."""
    import pytest_socket

    pytest_socket.socket_allow_hosts(
        ["127.0.0.1", "localhost", "::1"], allow_unix_socket=True
    )
    yield
    pytest_socket._remove_restrictions()


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
