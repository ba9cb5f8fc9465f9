"""Mean and spread over runs of several seeds."""

import hashlib
from collections.abc import Sequence
from functools import partial
from statistics import fmean, stdev

from benchmarks.common import console, table
from benchmarks.data.general import CATEGORY as GENERAL
from benchmarks.data.items import DataSet
from benchmarks.data.locomo import ADVERSARIAL
from benchmarks.job import Job
from benchmarks.log import Log, Row
from benchmarks.metrics import tool_calls
from benchmarks.report.answers import MEASURES, failed, lead, scored, tool_task
from benchmarks.report.figures import by_system, mean, mean_of_means, measured_of


def write_seeds(runs: Sequence[tuple[Job, Log]]) -> str:
    """The table over all runs, also written beside their folders."""
    first = runs[0][0]
    every = [log.rows("asked") for _, log in runs]
    parts = [
        f"## {first.data.title}: mean and standard deviation of {len(runs)} seeds\n",
        _table(first, every),
    ]
    if first.data.name == "locomo":
        kept = [
            [row for row in rows if row["category"] != ADVERSARIAL] for rows in every
        ]
        parts += ["\nWithout category 5 (adversarial):\n", _table(first, kept)]
    parts += [
        "\nThe single runs:\n",
        *(f"- {job.folder}/report.md" for job, _ in runs),
        "",
    ]
    text = "\n".join(parts)
    names = " ".join(job.folder.name for job, _ in runs)
    short = hashlib.sha256(names.encode()).hexdigest()[:10]
    file = first.out / f"{first.data.name}-seeds-{short}.md"
    file.write_text(text, encoding="utf-8")
    console.print(f"Written to {file}")
    return text


def _table(job: Job, runs: Sequence[Sequence[Row]]) -> str:
    names = [spec.name for spec in job.specs]
    of_runs = [
        {n: _figures(job.data, own) for n, own in by_system(r, names).items()}
        for r in runs
    ]
    shown = list(
        dict.fromkeys(key for run in of_runs for own in run.values() for key in own)
    )
    lines = [
        [
            name,
            *(
                _spread([run[name].get(key) for run in of_runs if name in run])
                for key in shown
            ),
        ]
        for name in names
    ]
    return table(["system", *shown], lines)


def _figures(data: DataSet, rows: Sequence[Row]) -> dict[str, float]:
    """The measures of one system in one run, by the titles that tables give them."""
    own = [row for row in rows if row["category"] != GENERAL]
    if data.task == "tool":
        asked = {(t.name, q.id): q for t in data.conversations for q in t.questions}
        tasks = [
            tool_task(row, asked[row["conversation"], row["question"]]) for row in own
        ]
        return tool_calls.summary(tasks)
    values = {name: measured_of(own, partial(scored, name)) for name in MEASURES}
    found = {MEASURES[name]: mean(one) for name, one in values.items() if one}
    if leading := lead(own):
        found["mean of conversations"] = mean_of_means(own, partial(scored, leading))
    answers, judgements, memory = map(float, failed(own))
    return found | {
        "answers failed": answers,
        "judgements failed": judgements,
        "memory failed": memory,
    }


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    return f"{fmean(known):.3f} ± {stdev(known) if len(known) > 1 else 0.0:.3f}"
