"""Measures memory on public data sets: `python -m benchmarks NAME… --data DIR`.

Here are the options; what they do is in command.py, which is slow to import. The
commands in `OTHERS` measure something else and have options of their own.
"""

import importlib
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from langmem_graph.cli import printing
from langmem_graph.errors import LangMemGraphError, TokenCountWarning

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


class Name(StrEnum):
    """The data sets; their loaders are in benchmarks/data."""

    BEAM = "beam"
    CHATS = "chats"
    LOCOMO = "locomo"
    LONGMEMEVAL = "longmemeval"
    ACTMEMEVAL = "actmemeval"
    REALMEM = "realmem"
    MEM2ACTBENCH = "mem2actbench"
    PERSONAMEM = "personamem"
    PREFEVAL = "prefeval"
    VEHICLEMEM = "vehiclemem"


@app.command(no_args_is_help=True)
def measure(
    names: Annotated[
        list[Name],
        typer.Argument(
            metavar="NAME…",
            help=f"Which data sets, one after the other: {', '.join(Name)}.",
        ),
    ],
    data: Annotated[
        Path,
        typer.Option(
            "--data",
            envvar="LANGMEM_GRAPH_DATA",
            help="Its file, or the folder of all.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="Where runs and reports go.")
    ] = Path("bench-runs"),
    model: Annotated[
        str | None,
        typer.Option("--model", help="Answers. Without one, retrieval is measured."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", help="Judges the answers; `same` is the model itself."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="The model's OpenAI-compatible server."),
    ] = None,
    judge_base_url: Annotated[
        str | None, typer.Option("--judge-base-url", help="The judge's server.")
    ] = None,
    reader: Annotated[
        Literal["context", "navigate"],
        typer.Option(help="Read a context, or look through memory with tools."),
    ] = "context",
    systems: Annotated[
        str, typer.Option(help="With commas; see docs/benchmarks.md.")
    ] = "",
    ablate: Annotated[
        str,
        typer.Option(
            help="Parts left out of ours-reason in turn, with commas, or `all`."
        ),
    ] = "",
    depths: Annotated[
        str, typer.Option(help="Depths of the goal loop: `0,1,2,3`.")
    ] = "",
    breadths: Annotated[
        str, typer.Option(help="Breadths of the goal loop: `1,2`.")
    ] = "",
    edges: Annotated[
        str,
        typer.Option(
            help="Cosines from which semantic edges are followed: `0.3,0.5,0.7`."
        ),
    ] = "",
    distractors: Annotated[
        str,
        typer.Option(
            help="Other tools offered beside the right one, of both kinds: `1,2,5`."
        ),
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Questions asked at most, evenly spread.")
    ] = None,
    unit: Annotated[
        Literal["message", "session", "entry"],
        typer.Option(
            help="What is shown: messages, whole sessions, or RealMem's own entries."
        ),
    ] = "message",
    paper_rubrics: Annotated[
        bool,
        typer.Option(
            "--paper-rubrics", help="Judge RealMem by its paper's criteria too."
        ),
    ] = False,
    by_speaker: Annotated[
        bool,
        typer.Option(
            "--by-speaker", help="LoCoMo once for either speaker, as NapMem asks."
        ),
    ] = False,
    seeds: Annotated[
        int,
        typer.Option(
            min=0, help="Answer so many times, drawn at temperature 1; 0: once, at 0."
        ),
    ] = 0,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="Passages shown at most: 20, of sessions 5."),
    ] = None,
    context_tokens: Annotated[
        int | None,
        typer.Option(
            min=100,
            help=(
                "Tokens of memory shown to a model: 1,500, of other units "
                "--full-tokens."
            ),
        ),
    ] = None,
    full_tokens: Annotated[
        int, typer.Option(min=100, help="The same for the system full-context.")
    ] = 100_000,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Longest answer of a model.")
    ] = 1_024,
    method: Annotated[
        str | None,
        typer.Option(
            "--structured-method", help="json_schema, function_calling or json_mode."
        ),
    ] = None,
    prices: Annotated[
        str, typer.Option(help="Dollars per million tokens: INPUT,OUTPUT, for totals.")
    ] = "",
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="Embedder; default MiniLM.")
    ] = None,
    cold: Annotated[
        bool,
        typer.Option(
            "--cold", help="Embed in the course of the run, and time that too."
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget an earlier run of the same.")
    ] = False,
    retry: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Ask again where answering or judging failed."
        ),
    ] = False,
    database: Annotated[
        str | None,
        typer.Option("--database", help="A prepared PostgreSQL database for `ours`."),
    ] = None,
) -> None:
    """Measure memory on public data sets, beside other systems. A stopped run
    continues.
    """
    given = dict(locals())
    from benchmarks.command import Options, bench

    for name in given.pop("names"):
        typer.echo(bench(Options(name.value, **given)))


OTHERS = {
    "truth": "benchmarks.truth.command",
    "truth-judge": "benchmarks.truth.judging",
    "truth-attacks": "benchmarks.truth.attacks",
    "episodes": "benchmarks.episodes",
    "forgetting": "benchmarks.forgetting",
    "prompts": "benchmarks.prompt_sizes",
}
"""Commands beside the data sets, and the modules whose `main` takes their options."""


def main() -> None:
    """Run the command line; errors of the library are one line, without a traceback."""
    warnings.simplefilter("ignore", TokenCountWarning)
    try:
        if sys.argv[1:2] and sys.argv[1] in OTHERS:
            importlib.import_module(OTHERS[sys.argv[1]]).main(sys.argv[2:])
        else:
            app(prog_name="python -m benchmarks")
    except (LangMemGraphError, OSError) as error:
        printing.fail(str(error))
        sys.exit(2)


if __name__ == "__main__":
    main()
