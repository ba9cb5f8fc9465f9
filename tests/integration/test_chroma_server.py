"""Against a real `chroma run` server: several processes may share one memory directory."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from langmem_graph.errors import InvalidInputError
from langmem_graph.memory import Memory
from langmem_graph.settings import Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from tests.conftest import said
from tests.support.chroma_server import Server
from tests.support.loopback import loopback_alone

pytestmark = pytest.mark.enable_socket  # loopback only, see the fixture
SMALL = Settings(storage=StorageSettings(index_batch=4))


@pytest.fixture(autouse=True)
def loopback_only(socket_enabled: None) -> Iterator[None]:
    with loopback_alone():
        yield


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that the tests share."""
    with _running(tmp_path_factory.mktemp("server")) as server:
        yield server.url


@pytest.fixture
def server(tmp_path: Path, loopback_only: None) -> Iterator[Server]:
    """A server of the test's own, which it may stop."""
    with _running(tmp_path / "server") as server:
        yield server


@contextmanager
def _running(directory: Path) -> Iterator[Server]:
    with loopback_alone():
        running = Server(directory)
        try:
            yield running
        finally:
            running.stop()


def test_adds_finds_rebuilds_and_erases(url: str, tmp_path: Path) -> None:
    path, before = tmp_path / "memory", _names(url)
    with Memory(path, chroma=url, embeddings="hash", settings=SMALL) as memory:
        for user_id in ("ann", "bob"):
            talk = [said(f"{user_id} says number {n}", id=str(n)) for n in range(20)]
            memory.user(user_id).add(talk, session_id="s")
        ann = memory.user("ann")
        health = ann.doctor(sample=0)
        assert (health.indexed, health.sampled, health.problems) == (20, 20, [])
        assert ann.search_conversation("says number 7")[0].text == "ann says number 7"
        assert ann.rebuild().indexed == 20
        ann.erase()
        assert memory.user("bob").doctor(sample=0).indexed == 20
    assert len(_names(url) - before) == 1
    assert not list(path.rglob("chroma*"))


def _collections(url: str) -> list:  # type: ignore[type-arg]
    from langmem_graph.storage.chroma_index import connect

    return list(connect(url).list_collections())


def _names(url: str) -> set[str]:
    return {collection.name for collection in _collections(url)}


@pytest.mark.long
def test_a_client_object_is_as_good_as_a_url(url: str, tmp_path: Path) -> None:
    from langmem_graph.storage.chroma_index import connect

    client = connect(url)
    with Memory(
        tmp_path / "m", chroma=client, embeddings="hash", settings=SMALL
    ) as memory:
        memory.user("u").add(
            [said(f"text {n}", id=str(n)) for n in range(9)], session_id="s"
        )
        assert memory.user("u").doctor().indexed == 9
    assert client.heartbeat()


_WRITER = """
import sys
from langmem_graph import Memory, Settings
path, url, me = sys.argv[1:]
small = Settings(storage={"index_batch": 4})
with Memory(path, chroma=url, embeddings="hash", settings=small) as memory:
    for n in range(20):
        memory.user("shared").add(
            {"role": "user", "content": f"{me} says {n}", "id": f"{me}.{n}"}, session_id=me
        )
"""


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2, marks=pytest.mark.long),
        pytest.param(3, marks=pytest.mark.stress),
    ],
)
def test_several_processes_share_one_directory(
    server: Server, tmp_path: Path, count: int
) -> None:
    path = tmp_path / "memory"
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, path, server.url, f"w{n}"])
        for n in range(count)
    ]
    assert [writer.wait() for writer in writers] == [0] * count
    with Memory(path, chroma=server.url, embeddings="hash", settings=SMALL) as memory:
        health = memory.user("shared").doctor(sample=0)
        assert (health.messages, health.vectors, health.indexed) == (20 * count,) * 3
        assert health.problems == []  # its queries may miss a few until it restarts


@pytest.mark.long
def test_a_stopped_server_degrades_and_heals(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    with Memory(path, chroma=server.url, embeddings="hash", settings=SMALL) as memory:
        user = memory.user("u")
        user.add(
            [said(f"text number {n}", id=str(n)) for n in range(12)], session_id="s"
        )
        server.stop()
        recall = user.recall("text number 7")
        assert recall.report.status == "degraded"
        assert recall.evidence[0].message_id == "7"
        report = user.add(
            [said(f"late {n}", id=f"l{n}") for n in range(8)], session_id="s"
        )
        assert len(report.stored) == 8
        assert any("Chroma" in warning for warning in report.warnings)
        server.start()
        assert user.recall("late 3").evidence[0].message_id == "l3"
    with Memory(path, chroma=server.url, embeddings="hash", settings=SMALL) as memory:
        health = memory.user("u").doctor(sample=0)
        assert (health.indexed, health.sampled, health.problems) == (20, 20, [])


@pytest.mark.long
def test_a_rebuild_by_another_process_is_followed(url: str, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    code = (
        "import sys; from langmem_graph import Memory\n"
        "with Memory(sys.argv[1], chroma=sys.argv[2], embeddings='hash') as m:"
        " print(m.user('u').rebuild().indexed)"
    )
    with Memory(path, chroma=url, embeddings="hash", settings=SMALL) as memory:
        user = memory.user("u")
        user.add(
            [said(f"text number {n}", id=str(n)) for n in range(12)], session_id="s"
        )
        assert user.recall("number 3").report.status == "ok"
        done = subprocess.run(
            [sys.executable, "-c", code, path, url], capture_output=True, check=True
        )
        assert done.stdout.strip() == b"12"
        assert user.recall("number 3").report.status == "ok"
        assert (
            user.add([said(f"more {n}") for n in range(8)], session_id="s").warnings
            == []
        )


@pytest.mark.long
def test_from_embedded_to_server_and_back(url: str, tmp_path: Path) -> None:
    path = tmp_path / "memory"
    for chroma in (None, url, None):
        with Memory(path, chroma=chroma, embeddings="hash", settings=SMALL) as memory:
            user = memory.user("u")
            user.add(
                said(f"added with {chroma}", at="2024-01-01"),
                session_id=str(time.time()),
            )
            health = user.doctor(sample=0)
            assert health.problems == []
            assert health.vectors - health.waiting_to_index == health.indexed
    assert health.messages == 3


def test_a_wrong_address_is_a_clear_error(tmp_path: Path, loopback_only: None) -> None:
    with Memory(
        tmp_path / "m", chroma="http://127.0.0.1:9", embeddings="hash"
    ) as memory:
        user = memory.user("u")
        assert user.add(said("kept all the same", id="1"), session_id="s").stored == [
            "1"
        ]
        recall = user.recall("kept all the same")
        assert (recall.report.status, recall.evidence[0].message_id) == (
            "degraded",
            "1",
        )
    with pytest.raises(InvalidInputError, match="http://HOST:PORT"):
        Memory(tmp_path / "m", chroma="localhost", embeddings="hash")
    with pytest.raises(InvalidInputError, match="client"):
        Memory(tmp_path / "m", chroma=5, embeddings="hash")  # type: ignore[arg-type]


_PUTTER = """
import sys
from langmem_graph import ChromaStore, Settings
path, url, me = sys.argv[1:]
small = Settings(storage={"index_batch": 4})
with ChromaStore(path, chroma=url, embeddings="hash", settings=small) as store:
    for n in range(15):
        store.put(("shared",), f"{me}.{n}", {"text": f"{me} says {n}"})
"""


@pytest.mark.long
def test_two_processes_share_a_store(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "store"
    parts = [
        subprocess.Popen([sys.executable, "-c", _PUTTER, path, server.url, me])
        for me in ("one", "two")
    ]
    assert [part.wait(120) for part in parts] == [0, 0]
    with ChromaStore(
        path, chroma=server.url, embeddings="hash", settings=SMALL
    ) as store:
        assert len(store.search(("shared",), limit=100)) == 30
        assert [collection.count() for collection in _collections(server.url)] == [30]
        assert store.search(("shared",), query="two says 7", limit=1)[0].key == "two.7"
        store.rebuild()
        server.stop()
        store.put(("shared",), "k", {"text": "written while the server is away"})
        assert store.search(("shared",), query="away", limit=1)[0].key == "k"
