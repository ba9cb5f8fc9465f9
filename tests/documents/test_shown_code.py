"""Every code block of a document runs as it is printed, and prints what is shown below it.

A page is one program: its Python runs from top to bottom in a new directory, without a network and
without names that the page does not make itself. Command lines and JSON are read by their parsers.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from langmem_graph.cli.commands import app
from langmem_graph.extraction import batch_view, reconcile_records
from tests.documents.test_documents import PAGES, REPOSITORY, named
from tests.support.marks import needs_model
from tests.support.shown_code import blocks, run_page

# The pages that need a server, or packages of others, and the tests that run them with these.
SERVED = {
    "README.md": "tests/documents/test_readme.py",
    "docs/multi-agent.md": "tests/documents/test_multi_agent_page.py",
    "docs/hosts.md": "tests/postgres/test_both_engines.py",
    "docs/security.md": "tests/integration/test_chroma_auth.py",
}
# The pages that change what the whole process has, and so get one of their own.
ALONE = {"docs/observability.md"}


def shown(page: Path, *kinds: str) -> list[Any]:
    return [block for block in blocks(page) if block.kind in kinds]


RUN = {
    name: page
    for name, page in zip(named(PAGES), PAGES, strict=True)
    if shown(page, "python")
}


@pytest.fixture
def in_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What a reader has: an empty directory, no settings, aliases that are drawn at random."""
    monkeypatch.chdir(tmp_path)
    for name in [
        one for one in os.environ if one.startswith(("LANGMEM_GRAPH_", "OPENAI_"))
    ]:
        monkeypatch.delenv(name)
    for module in (batch_view, reconcile_records):
        monkeypatch.setattr(module, "draw_first_alias", lambda: 417)
    yield tmp_path


@needs_model
@pytest.mark.parametrize("name", sorted(RUN.keys() - SERVED.keys() - ALONE))
def test_a_page_runs_as_printed(name: str, in_a_new_folder: Path) -> None:
    printed = run_page(RUN[name], in_a_new_folder)
    assert printed
    assert printed == [block.output or "" for block in shown(RUN[name], "python")]


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_page_runs_in_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    code = "".join(block.text for block in shown(RUN[name], "python"))
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, check=True, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""


@pytest.mark.parametrize("name", sorted(SERVED))
def test_a_page_that_needs_a_server_is_run_beside_one(name: str) -> None:
    assert f'"{name}"' in (REPOSITORY / SERVED[name]).read_text(encoding="utf-8")


def commands(page: Path) -> Iterator[list[str]]:
    """The command lines of a page, as words without comments."""
    for block in shown(page, "sh", "bash"):
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith(("langmem-graph ", "pip install ")):
                yield shlex.split(line, comments=True)


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_a_command_line_that_is_shown_is_understood(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    for program, first, *words in commands(page):
        if program == "langmem-graph":
            command = group.commands[first]
            with typer.Context(command) as context:
                command.make_parser(context).parse_args(list(words))
        for extra in (
            re.findall(r"\[(\w+)\]", " ".join(words)) if program == "pip" else ()
        ):
            assert f"\n{extra} = [" in text, extra


@pytest.mark.parametrize("page", PAGES, ids=named(PAGES))
def test_json_that_is_shown_is_json(page: Path) -> None:
    for block in shown(page, "json"):
        assert json.loads(block.text)


def test_a_page_whose_code_lacks_a_name_or_prints_something_else_is_found(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n", encoding="utf-8"
    )
    assert (
        run_page(page, tmp_path)
        == [block.output for block in shown(page, "python")]
        == ["2\n"]
    )
    page.write_text(
        "```python\nprint(1)\n```\n\nNo output:\n\n```text\n2\n```\n", encoding="utf-8"
    )
    assert [block.output for block in shown(page, "python")] == [None]
    page.write_text("Text.\n\n```python\nmodel.invoke()\n```\n", encoding="utf-8")
    with pytest.raises(NameError, match="model"):
        run_page(page, tmp_path)
