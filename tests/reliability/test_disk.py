"""A full disk, a disk that cannot be written, damaged files: it is said, and nothing is lost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from langmem_graph.errors import StorageError
from langmem_graph.graphs.nodes import create_recall_node, create_write_node
from langmem_graph.memory import Memory
from langmem_graph.settings import ExtractionSettings, Settings, StorageSettings
from langmem_graph.store.chroma_store import ChromaStore
from tests.conftest import said
from tests.support.models import steady_model

CONFIG: Any = {"configurable": {"user_id": "ana", "thread_id": "t"}}
SMALL = Settings(
    storage=StorageSettings(index_batch=8, closing_seconds=5),
    extraction=ExtractionSettings(debounce_seconds=0.0),
)


def _mount(place: Path, options: str) -> bool:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


class SmallDisk:
    """A file system of few megabytes, that can be filled up and freed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self, leave: int = 0) -> None:
        with (self.path / "ballast").open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)
        if leave:
            size = (self.path / "ballast").stat().st_size
            os.truncate(self.path / "ballast", max(0, size - leave))

    def free(self) -> None:
        (self.path / "ballast").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    place = tmp_path / "disk"
    place.mkdir()
    if not _mount(place, "size=24m"):
        pytest.skip("a file system of the test's own cannot be mounted here")
    yield SmallDisk(place)
    subprocess.run(["umount", "-l", str(place)], check=False)


def texts(first: int, count: int) -> list[dict[str, Any]]:
    return [
        said(f"text number {n} of the garden", id=str(n))
        for n in range(first, first + count)
    ]


def assert_whole(memory: Memory, ids: set[str]) -> None:
    ana = memory.user("ana")
    assert {row["id"] for row in ana.export()} >= ids
    health = ana.doctor(sample=0)
    assert (health.problems, health.vectors) == ([], health.messages)


def test_a_disk_that_fills_up_while_adding(disk: SmallDisk) -> None:
    kept: set[str] = set()
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        ana = memory.user("ana")
        kept |= set(ana.add(texts(0, 20), session_id="s").stored)
        disk.fill(leave=200_000)
        with pytest.raises(StorageError, match="full"):
            for n in range(20, 2_000):
                kept |= set(ana.add(texts(n, 1), session_id="s").stored)
        assert len(kept) > 20  # some were acknowledged before there was no room left
        disk.fill()
        found = ana.recall("text number 7")
        assert (found.report.status, bool(found.evidence)) in (
            ("ok", True),
            ("degraded", True),
        )
        assert ana.search_conversation("text number 3")
        with pytest.raises(StorageError, match="free space"):
            ana.add(texts(5_000, 1), session_id="s")
        assert {row["id"] for row in ana.export()} == kept
        disk.free()
        kept |= set(ana.add(texts(6_000, 3), session_id="s").stored)
        assert ana.recall("text number 6001").evidence[0].message_id == "6001"
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        assert_whole(memory, kept)


@pytest.mark.parametrize("leave", [0, 40_000, 90_000, 150_000, 400_000])
def test_a_memory_that_is_opened_on_a_full_disk(disk: SmallDisk, leave: int) -> None:
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        kept = set(memory.user("ana").add(texts(0, 20), session_id="s").stored)
    disk.fill(leave)
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        ana = memory.user("ana")
        try:
            assert ana.recall("text number 7").evidence
        except StorageError as error:
            assert "free space" in str(error)
        state = create_recall_node(memory, report=True).invoke(
            {"messages": [("user", "text number 7")]}, CONFIG
        )
        assert state["memory_report"]["recall"]["status"] in (
            "ok",
            "degraded",
            "failed",
        )
        try:
            kept |= set(ana.add(texts(20, 60), session_id="s").stored)
        except StorageError as error:
            assert "free space" in str(error)
    if leave:  # without one free page SQLite cannot even look
        with Memory(disk.path / "m", embeddings="hash", read_only=True) as looking:
            assert looking.user("ana").search_conversation("text number 7")
    disk.free()
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        assert_whole(memory, kept)


def test_a_turn_on_a_full_disk_goes_on_and_says_so(disk: SmallDisk) -> None:
    messages = {"messages": [("user", "hello garden")]}
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        memory.user("ana").add(texts(0, 20), session_id="s")
        disk.fill()
        recalled = create_recall_node(memory, report=True).invoke(messages, CONFIG)
        assert recalled["memory_report"]["recall"]["status"] == "ok"
        written = create_write_node(memory, report=True).invoke(messages, CONFIG)
        assert written["memory_report"]["write"]["status"] == "failed"
        assert "full" in written["memory_report"]["write"]["error"]
        disk.free()
        written = create_write_node(memory, report=True).invoke(messages, CONFIG)
        assert written["memory_report"]["write"]["stored"] == 1


def test_reading_on_a_full_disk_is_done_later(disk: SmallDisk) -> None:
    path = disk.path / "m"
    with Memory(
        path, model=steady_model(), embeddings="hash", settings=SMALL
    ) as memory:
        ana = memory.user("ana")
        ana.add(texts(0, 6), session_id="s")
        disk.fill()
        with pytest.raises(StorageError, match="free space"):
            ana.flush()
        disk.free()
        report = ana.flush()
        assert (report.status, report.pending, report.read) == ("ok", 0, 6)
        assert ana.search_records("garden")


def test_a_store_on_a_full_disk(disk: SmallDisk) -> None:
    with ChromaStore(disk.path / "m", embeddings="hash", settings=SMALL) as store:
        store.put(("a",), "k0", {"text": "the garden"})
        disk.fill()
        with pytest.raises(StorageError, match="free space"):
            for n in range(1, 400):
                store.put(("a",), f"k{n}", {"text": "garden " * 200})
        assert store.search(("a",), query="garden")
        count = len(store.search(("a",), limit=1_000))
        disk.free()
        store.put(("a",), "late", {"text": "the late garden"})
        assert len(store.search(("a",), limit=1_000)) == count + 1


def test_a_disk_that_cannot_be_written(disk: SmallDisk) -> None:
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        memory.user("ana").add(texts(0, 20), session_id="s")
    done = subprocess.run(
        ["mount", "-o", "remount,ro", str(disk.path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("cannot be mounted read-only here")
    with pytest.raises(StorageError, match="may write to"):
        Memory(disk.path / "m", embeddings="hash")
    with Memory(disk.path / "m", embeddings="hash", read_only=True) as looking:
        found = looking.user("ana").recall("text number 7")
        assert found.evidence[0].message_id == "7"
    subprocess.run(["mount", "-o", "remount,rw", str(disk.path)], check=True)
    with Memory(disk.path / "m", embeddings="hash", settings=SMALL) as memory:
        memory.user("ana").add(texts(20, 1), session_id="s")
        assert_whole(memory, {str(n) for n in range(21)})


# --- damaged files ---

_DAMAGES = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: b"\0" * len(data),
    "noise": lambda data: bytes((i * 73 + 41) % 256 for i in range(len(data))),
    "flipped": lambda data: bytes(
        b ^ 0xFF if i % 97 == 5 else b for i, b in enumerate(data)
    ),
    "gone": lambda data: None,
}

_BESIDE = """
import json, sys
from langmem_graph import Memory, Settings
from tests.conftest import said
chosen = Settings(storage={"index_batch": 64})
with Memory(sys.argv[1], embeddings="hash", settings=chosen) as memory:
    ana = memory.user("ana")
    found = ana.recall("text number 7 of the garden")
    added = ana.add([said(f"late text {n}", id=f"late{n}") for n in range(70)], session_id="t")
    late = ana.recall("late text 33")
    print(json.dumps({
        "first": [found.report.status, bool(found.evidence)],
        "stored": len(added.stored), "warned": bool(added.warnings),
        "late": [late.report.status, "late33" in [hit.message_id for hit in late.evidence]],
    }))
chosen = Settings(storage={"index_batch": 64})
with Memory(sys.argv[1], embeddings="hash", settings=chosen) as memory:
    ana = memory.user("ana")
    before = ana.doctor(sample=0).problems
    health = ana.rebuild()
    found = ana.recall("late text 33").report.status
    rows = len(ana.export())
    print(json.dumps({"problems": before, "after": health.problems, "recall": found, "rows": rows}))
"""


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory whose Chroma has written its index files."""
    path = tmp_path_factory.mktemp("damage") / "m"
    with Memory(
        path,
        embeddings="hash",
        settings=Settings(storage=StorageSettings(index_batch=64)),
    ) as memory:
        memory.user("ana").add(texts(0, 1_200), session_id="s")
    return path


def _files(path: Path) -> list[Path]:
    return sorted(file for file in path.glob("users/*/chroma-*/**/*") if file.is_file())


def _after_damage(path: Path) -> list[dict[str, Any]]:
    """In a process of its own: a damaged file may bring a library down."""
    done = subprocess.run(
        [sys.executable, "-c", _BESIDE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ]


def _damage(path: Path, file: str, kind: str) -> None:
    for found in _files(path):
        if found.name == file:
            data = _DAMAGES[kind](found.read_bytes())  # type: ignore[no-untyped-call]
            found.unlink() if data is None else found.write_bytes(data)


def _check_damage(indexed: Path, tmp_path: Path, file: str, kind: str) -> None:
    import shutil

    shutil.copytree(indexed, tmp_path / "m")
    assert file in {found.name for found in _files(tmp_path / "m")}
    _damage(tmp_path / "m", file, kind)
    first, then = _after_damage(tmp_path / "m")
    assert first["first"][0] in ("ok", "degraded")
    assert first["first"][1]
    assert first["stored"] == 70
    assert first["late"][1]
    assert then["after"] == []
    assert (then["recall"], then["rows"]) == ("ok", 1_270)


SOME = [("chroma.sqlite3", "half"), ("data_level0.bin", "noise")]
ALL = [
    (file, kind)
    for file in (
        "chroma.sqlite3",
        "data_level0.bin",
        "header.bin",
        "length.bin",
        "link_lists.bin",
    )
    for kind in _DAMAGES
    if (file, kind) not in SOME
]


@pytest.mark.parametrize(("file", "kind"), SOME)
def test_a_damaged_index_file(
    indexed: Path, tmp_path: Path, file: str, kind: str
) -> None:
    _check_damage(indexed, tmp_path, file, kind)


@pytest.mark.stress
@pytest.mark.parametrize(("file", "kind"), ALL)
def test_every_damaged_index_file(
    indexed: Path, tmp_path: Path, file: str, kind: str
) -> None:
    _check_damage(indexed, tmp_path, file, kind)


@pytest.mark.parametrize("kind", ["half", "zeros", "noise", "flipped"])
def test_a_damaged_ledger_is_said(indexed: Path, tmp_path: Path, kind: str) -> None:
    import shutil

    shutil.copytree(indexed, tmp_path / "m")
    (ledger,) = (tmp_path / "m").glob("users/*/ledger.db")
    damaged = _DAMAGES[kind](ledger.read_bytes())  # type: ignore[no-untyped-call]
    ledger.write_bytes(damaged)
    with Memory(tmp_path / "m", embeddings="hash") as memory:
        ana = memory.user("ana")
        for call in (
            lambda: ana.recall("text number 7"),
            lambda: ana.add(texts(1_200, 1), session_id="s"),
            ana.export,
        ):
            with pytest.raises(StorageError, match="cannot be used"):
                call()
        ana.erase()
        assert ana.add(texts(0, 1), session_id="s").stored == ["0"]
