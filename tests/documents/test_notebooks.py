"""The notebooks of examples/ run without a key, and their stored outputs are those of the run."""

import json
from pathlib import Path

import pytest

from tests.support.marks import needs_model
from tests.support.notebooks import NOTEBOOKS, code_cells, run, stored


@needs_model
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_stores(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept = [stored(cell) for cell in code_cells(notebook)]
    assert any(kept)
    assert run(notebook) == kept
    text = "".join(line for cell in notebook["cells"] for line in cell["source"])
    assert "scripted" in text


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_steps", "reasoning_and_tools"]
