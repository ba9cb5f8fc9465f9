"""A Hugging Face hub on loopback: one repository, whose files are those of a folder."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REPOSITORY = "ana/tiny"
COMMIT = "1234567890abcdef1234567890abcdef12345678"


@dataclass
class Hub:
    """What it serves, and what it was asked for."""

    folder: Path
    url: str = ""
    revisions: tuple[str, ...] = ("main", "v2", COMMIT)
    absent: set[str] = field(default_factory=set)
    hangs: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def names(self) -> list[str]:
        files = (file for file in self.folder.rglob("*") if file.is_file())
        return sorted(file.relative_to(self.folder).as_posix() for file in files)


@contextmanager
def model_hub(folder: Path) -> Iterator[Hub]:
    """The hub while it runs."""
    hub = Hub(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, *, body: bool) -> None:
            hub.asked.append(f"{self.command} {self.path}")
            if any(part in self.path for part in hub.hangs):
                hub.released.wait(60)
                return
            status, headers, content = _answer(hub, self.path.partition("?")[0])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        hub.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _answer(hub: Hub, path: str) -> tuple[int, dict[str, str], bytes]:
    if path == "/":
        return 200, {}, b"a hub"
    if path.startswith(f"/api/models/{REPOSITORY}"):
        return _listing(hub, path)
    begin = f"/{REPOSITORY}/resolve/{COMMIT}/"
    if not path.startswith(begin):
        return 404, {"x-error-code": "RepoNotFound"}, b""
    name = path.removeprefix(begin)
    if name in hub.absent or name not in hub.names():
        return 404, {"x-error-code": "EntryNotFound", "x-repo-commit": COMMIT}, b""
    content = (hub.folder / name).read_bytes()
    etag = f'"{hashlib.sha256(content).hexdigest()}"'
    return 200, {"etag": etag, "x-repo-commit": COMMIT}, content


def _listing(hub: Hub, path: str) -> tuple[int, dict[str, str], bytes]:
    revision = path.partition("/revision/")[2] or "main"
    if revision not in hub.revisions:
        return 404, {"x-error-code": "RevisionNotFound"}, b""
    files = [{"rfilename": name} for name in hub.names()]
    said = {"id": REPOSITORY, "sha": COMMIT, "siblings": files}
    return 200, {"content-type": "application/json"}, json.dumps(said).encode()
