"""How fast peers search the messages that `benchmarks.speed` made, beside our own
figures.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import chatter, common
from benchmarks.chatter import CheapEmbeddings
from benchmarks.peers.process import environment, run_all, write_job
from benchmarks.report import plots

K = 10
Times = Mapping[str, Mapping[int, float]]


def search_beside(
    ours: Mapping[int, float],
    systems: Sequence[str],
    *,
    queries: int,
    session: int,
    output: Path,
) -> str:
    """A table of the median milliseconds of a search, and how many times ours takes
    less.

    Args:
        ours: our own median by number of messages.
        systems: peers, as `worker.py` names them; one that fails is reported with its
            error.
        queries: searches per size.
        session: messages of a session.
        output: where the peers' environment is, or is made, and where the plot goes.
    """
    chat = chatter.make_chat()
    asked, sizes = chatter.queries(chat, queries), sorted(ours)
    messages = list(
        chain.from_iterable(chatter.sessions(chat, sizes[-1], length=session))
    )
    numbered = [
        message | {"id": str(number)} for number, message in enumerate(messages)
    ]
    job = {"k": K, "sizes": sizes, "messages": numbered, "queries": asked}
    with TemporaryDirectory() as folder:
        texts = [message["content"] for message in messages] + asked
        write_job(Path(folder), job, texts, CheapEmbeddings(chat))
        results = run_all(systems, Path(folder), environment(output / "peers-venv"))
    times: dict[str, Mapping[int, float]] = {"ours": ours}
    for name, result in results.items():
        if not isinstance(result, str):
            times[name] = {int(size): median(own) for size, own in result.items()}
    plots.time_lines(times, "Search beside peers", output / "peers.png")
    failed = [
        f"{name}: {result}"
        for name, result in results.items()
        if isinstance(result, str)
    ]
    title = "### Search, ms, median, and times ours (embedding excluded)\n"
    return "\n".join([title, _times(times), *failed, ""])


def _times(times: Times) -> str:
    """Median per size; behind it how many times ours takes less."""
    ours = times["ours"]
    header = ["system", *(f"{size:,}" for size in ours)]
    rows = [
        [name, *(f"{own[size]:.1f} ({own[size] / ours[size]:.1f}×)" for size in ours)]
        for name, own in times.items()
    ]
    return common.table(header, rows)
