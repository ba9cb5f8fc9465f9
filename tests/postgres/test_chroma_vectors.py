"""Vectors on a Chroma server, everything else in PostgreSQL: `Memory(url, chroma=URL)`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from langmem_graph.memory import Memory
from langmem_graph.settings import RankingSettings, Settings, StorageSettings
from langmem_graph.storage.chroma_index import connect
from tests.conftest import said
from tests.support.chroma_server import Server
from tests.support.loopback import loopback_alone

pytestmark = pytest.mark.enable_socket  # loopback only, see the fixture
FEW = Settings(
    storage=StorageSettings(index_batch=4), ranking=RankingSettings(dense_candidates=4)
)


@pytest.fixture
def chroma(tmp_path: Path, socket_enabled: None) -> Iterator[Server]:
    with loopback_alone():
        running = Server(tmp_path / "server")
        yield running
        running.stop()


def test_two_replicas_share_a_chroma_server(
    database: str, chroma: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "langmem_graph.retrieval.search_common.RoomSearch.held", lambda *_: None
    )
    talk = [said(f"ann says number {n}", id=str(n)) for n in range(10)]
    with (
        Memory(database, chroma=chroma.url, embeddings="hash", settings=FEW) as one,
        Memory(database, chroma=chroma.url, embeddings="hash", settings=FEW) as other,
    ):
        one.user("ann").add(talk, session_id="s")
        health = one.user("ann").doctor(sample=0)
        assert (health.indexed, health.problems) == (10, [])
        assert (
            other.user("ann").search_conversation("says number 7")[0].text
            == "ann says number 7"
        )
        chroma.stop()  # words still find
        assert (
            other.user("ann").search_conversation("says number 7")[0].text
            == "ann says number 7"
        )
        chroma.start()
        other.user("ann").erase()
    assert not list(connect(chroma.url).list_collections())
    with Memory(database, embeddings="hash", settings=FEW) as without:
        without.user("ann").add(talk, session_id="s")
        assert without.user("ann").doctor(sample=0).indexed == 10
    with Memory(database, chroma=chroma.url, embeddings="hash", settings=FEW) as again:
        assert (
            again.user("ann").search_conversation("says number 7")[0].text
            == "ann says number 7"
        )
        # all vectors went there
        assert again.user("ann").doctor(sample=0).indexed == 10
    assert len(list(connect(chroma.url).list_collections())) > 0
