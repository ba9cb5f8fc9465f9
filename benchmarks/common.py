"""What the commands share: where things lie, arguments, progress, tables."""

import argparse
import os
from pathlib import Path

from langmem_graph.bench.console import console, progress, table

REPOSITORY = Path(__file__).resolve().parents[1]
OUTPUT = REPOSITORY / ".benchmarks"
"""Reports, plots, cached vectors and the peers' virtual environment; not committed."""
__all__ = ["add_data_argument", "console", "parser", "progress", "save", "sizes", "table"]


def parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments every command takes."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--output", type=Path, default=OUTPUT, help="where reports and caches go")
    return made


def add_data_argument(made: argparse.ArgumentParser) -> None:
    """The folder with LoCoMo and RealMem."""
    default = os.environ.get("LANGMEM_GRAPH_DATA") or REPOSITORY.parent / "shared" / "data"
    made.add_argument(
        "--data",
        type=Path,
        default=Path(default),
        help="folder with locomo/*.json and realmem/*.json; default $LANGMEM_GRAPH_DATA,"
        " else ../shared/data",
    )


def sizes(text: str) -> list[int]:
    """`1k,10k,100k` as numbers, smallest first."""
    return sorted(int(part.strip().lower().replace("k", "000")) for part in text.split(","))


def save(output: Path, name: str, text: str) -> None:
    """Write a report and print it."""
    output.mkdir(parents=True, exist_ok=True)
    (output / name).write_text(text, encoding="utf-8")
    print(text)
    console.print(f"Written to {output / name}")
