"""The code that a document shows: its blocks, what is printed below them, and running them."""

import contextlib
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langmem_graph.closing import Closing

BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)\n(?P<text>.*?)^ *```$\n?(?P<after>\n*```text\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `output` is the `text` block that follows it directly."""

    line: int
    kind: str
    text: str
    output: str | None


def blocks(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page, in order."""
    text, start = page.read_text(encoding="utf-8"), 0
    while found := BLOCK.search(text, start):
        start = found.end() - len(found["after"] or "")
        shown = BLOCK.search(text, start) if found["after"] else None
        output = shown["text"] if shown else None
        yield Block(
            text.count("\n", 0, found.start()) + 2,
            found["kind"],
            textwrap.dedent(found["text"]),
            output,
        )


def run_page(
    page: Path, folder: Path, names: dict[str, Any] | None = None
) -> list[str]:
    """Run a page's Python from top to bottom, as one program; what each block printed.

    Tests that it shows (`def test_…(tmp_path)`) are run too. `names` are known beforehand: none,
    where a page is to run exactly as printed.
    """
    known: dict[str, Any] = {"__name__": "__main__", **(names or {})}
    printed = []
    for block in (one for one in blocks(page) if one.kind == "python"):
        out = io.StringIO()
        # tracebacks name the page's lines
        source = "\n" * (block.line - 1) + block.text
        with contextlib.redirect_stdout(out):
            exec(compile(source, str(page), "exec"), known)
        printed.append(out.getvalue())
    for one in list(known.values()):
        if isinstance(one, Closing):  # a page may leave its memory open
            one.close()
    for name, test in list(known.items()):
        if name.startswith("test_") and inspect.isfunction(test):
            (folder / name).mkdir()
            test(folder / name)
    return printed
