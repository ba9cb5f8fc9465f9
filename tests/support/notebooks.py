"""Runs notebooks cell by cell; `python -m tests.support.notebooks` stores what they print."""

import contextlib
import io
import json
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored(cell: dict[str, Any]) -> str:
    """What a cell's stored outputs say, as one text."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


def run(notebook: dict[str, Any]) -> list[str]:
    """What each code cell prints, run from top to bottom in the current directory."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for cell in code_cells(notebook):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec("".join(cell["source"]), names)
        printed.append(out.getvalue())
    return printed


def main() -> None:
    warnings.simplefilter("ignore")
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            printed = run(notebook)
        for number, (cell, text) in enumerate(
            zip(code_cells(notebook), printed, strict=True), 1
        ):
            stream = {
                "output_type": "stream",
                "name": "stdout",
                "text": text.splitlines(True),
            }
            cell["outputs"] = [stream] if text else []
            cell["execution_count"] = number
        text = json.dumps(notebook, ensure_ascii=False, indent=1)
        path.write_text(text + os.linesep, encoding="utf-8")


if __name__ == "__main__":
    main()
