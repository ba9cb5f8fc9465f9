"""No byte of the process's memory goes to disk that nobody meant to write.

glibc fills what is allocated and freed with a pattern here, so memory that is written as it was
found shows in the files. Without the blanking of Chroma's new files these tests must find some.
"""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from tests.support.traces import runs_of

PATTERN = 0xA5  # what is freed gets it, what is allocated its complement
LIFE = """
import sys
from pathlib import Path
from langmem_graph import ChromaStore, Memory, Settings
from langmem_graph.testing import HashEmbeddings
from langmem_graph.storage import chroma_index
from tests.reliability.test_unused_memory import PATTERN
from tests.support.traces import runs_of

path, count, blanked = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "blanked"
if not blanked:
    chroma_index.blank_unused = lambda directory: None
embedder, small = HashEmbeddings(384), Settings(storage={"index_batch": 64})
found = 0

def look(stage):
    global found
    for byte in (PATTERN, PATTERN ^ 0xFF):
        for name, size in runs_of(path, byte, 16):
            print(stage, name, size)
            found += size

for life in range(2 if blanked else 1):
    with Memory(path, embeddings=embedder, settings=small) as memory:
        user = memory.user("u")
        user.search_conversation("boats")
        look("opened")
        for first in range(0, count, 50):
            talk = [
                {"role": "user", "content": f"text {n} about boats " * 5, "id": f"{life}.{n}"}
                for n in range(first, first + 50)
            ]
            user.add(talk, session_id=f"s{first}")
        cite = {"source_message_ids": [f"{life}.0"]}
        user.add_records([{"text": f"record {life} {n}", **cite} for n in range(70)])
        look("added")
        user.forget(message=f"{life}.3")
        user.forget(record=user.export_records()[5]["record_id"])
        look("forgotten")
        user.rebuild()
        look("rebuilt")
        with ChromaStore(path, embeddings=embedder, settings=small) as store:
            for n in range(80):
                store.put(("a",), str(n), {"text": f"item {life} {n}"})
            look("stored")
    look("closed")
print("bytes of unused memory:", found)
"""


def live(path: Path, count: int, how: str) -> int:
    """How many bytes of unused memory the files of a memory's life held."""
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(path), str(count), how],
        env={**os.environ, "MALLOC_PERTURB_": str(PATTERN)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    return int(done.stdout.split(":")[-1])


glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="fills memory by glibc"
)


@glibc
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(50, marks=pytest.mark.long),
        *(pytest.param(count, marks=pytest.mark.stress) for count in (150, 1_200)),
    ],
    ids="{} messages".format,
)
def test_no_unused_memory_is_in_any_file(tmp_path: Path, count: int) -> None:
    assert live(tmp_path / "m", count, "blanked") == 0


@glibc
@pytest.mark.long
def test_without_blanking_there_would_be(tmp_path: Path) -> None:
    """The test above can fail. Should Chroma ever write zeros, ``blank_unused`` can go."""
    assert live(tmp_path / "m", 50, "as Chroma leaves them") > 100_000


KILLED = """
import os, signal, sys
from langmem_graph import Memory, Settings
from langmem_graph.testing import HashEmbeddings
from langmem_graph.storage import chroma_index
chroma_index.blank_unused = lambda directory: os.kill(os.getpid(), signal.SIGKILL)
small = Settings(storage={"index_batch": 4})
memory = Memory(sys.argv[1], embeddings=HashEmbeddings(384), settings=small)
talk = [{"role": "user", "content": f"text {n}"} for n in range(9)]
memory.user("u").add(talk, session_id="s")
"""


@pytest.mark.long
@glibc
def test_a_process_killed_before_blanking_is_cleaned_up_after(tmp_path: Path) -> None:
    path = tmp_path / "m"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        env={**os.environ, "MALLOC_PERTURB_": str(PATTERN)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert runs_of(path, PATTERN, 16) + runs_of(path, PATTERN ^ 0xFF, 16)
    # that user's room stays closed
    with Memory(path, embeddings=HashEmbeddings(384)) as memory:
        memory.user("other").sessions()
        assert not runs_of(path, PATTERN, 16) + runs_of(path, PATTERN ^ 0xFF, 16)
        assert memory.user("u").doctor(sample=0).ok
