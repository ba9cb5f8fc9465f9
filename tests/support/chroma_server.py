"""A Chroma server in a process of its own."""

import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.support.loopback import free_port


class Server:
    """A Chroma server in its own process, that can be stopped and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        command = [
            "run",
            "--path",
            self._directory,
            "--host",
            "127.0.0.1",
            "--port",
            self._port,
        ]
        self._process = subprocess.Popen(
            [Path(sys.executable).parent / "chroma", *map(str, command)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        for _ in range(300):
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        raise TimeoutError("chroma run did not start")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
