"""What the commands share: where things lie, arguments, progress, tables."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUT = REPOSITORY / ".benchmarks"
"""Reports, plots, cached vectors and the peers' virtual environment; not committed."""
console = Console(stderr=True)
"""Progress goes to standard error, so that standard output holds the tables alone."""


def parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments every command takes."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--output", type=Path, default=OUTPUT, help="where reports and caches go"
    )
    return made


def add_data_argument(made: argparse.ArgumentParser) -> None:
    """The folder with LoCoMo and RealMem."""
    named = os.environ.get("LANGMEM_GRAPH_DATA")
    made.add_argument(
        "--data",
        type=Path,
        default=named,
        required=not named,
        help=(
            "folder with locomo/*.json and realmem/*.json; default $LANGMEM_GRAPH_DATA"
        ),
    )


def sizes(text: str) -> list[int]:
    """`1k,10k,100k` as numbers, smallest first."""
    return sorted(
        int(part.strip().lower().replace("k", "000")) for part in text.split(",")
    )


def save(output: Path, name: str, text: str) -> None:
    """Write a report and print it."""
    output.mkdir(parents=True, exist_ok=True)
    (output / name).write_text(text, encoding="utf-8")
    print(text)
    console.print(f"Written to {output / name}")


def progress() -> Progress:
    """A bar with what is done, how long it took and how long it will take."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, the others are numbers."""
    marks = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, marks, *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    """On one line, and no end of the cell within it."""
    return " ".join(text.split("\n")).replace("|", "\\|")
