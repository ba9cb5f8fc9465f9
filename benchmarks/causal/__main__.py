"""Which causal scorer tells causes from mere company? Hand-written pairs, a local
model.

Run from the repository root: `python -m benchmarks.causal --start` (with the packages
it names), or `--server URL` for a running llama-server, or `--model NAME` for a model
of transformers.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from benchmarks import common
from benchmarks.causal.hugging_face import HuggingFaceModel
from benchmarks.causal.local_server import started
from benchmarks.causal.pairs import KINDS, PARTS, Group, load, shared_words
from benchmarks.causal.reading import Reading, Scores
from benchmarks.metrics.statistics import auc, bootstrap_interval
from langmem_graph.causal.local_models import LlamaServer
from langmem_graph.causal.scorers import PMI_MIN, TokenLogProbs

ROUNDS = 2_000
COLUMNS = ["against topical events", "against unrelated", "against both"]
AGAINST: list[list[int]] = [[1], [2], [1, 2]]
COMPARED = [
    ("contrast", "pmi"),
    ("contrast+later", "contrast"),
    ("contrast + cosine", "contrast"),
    ("contrast+later + cosine", "contrast+later"),
    ("pmi + contrast", "contrast"),
    ("contrast − topicality / 4", "contrast"),
]


def main() -> int:
    """All tables, one report."""
    options = _arguments()
    groups = load()
    with _language_model(options) as lm:
        reading = Reading(lm, groups)
        scores = reading.scores() | _surface(groups)
        accepted, orders = _accepted(scores, reading), _orders(reading)
    parts = [
        f"# Causal scorers: {len(groups)} groups of a cause and three other texts\n"
    ]
    for title, places in _parts(groups):
        parts += [f"\n## AUC, {title} (95% interval)\n", _aucs(scores, places, reading)]
        parts += [f"\n## Difference of two AUCs, {title} (95% interval)\n"]
        parts += [_differences(scores, places)]
    parts += ["\n## Share accepted\n", accepted, "\n## Direction\n", orders, ""]
    common.save(options.output, "causal.md", "\n".join(parts))
    return 0


def _arguments() -> argparse.Namespace:
    made = common.parser(__doc__)
    way = made.add_mutually_exclusive_group(required=True)
    way.add_argument(
        "--server", help="a running llama-server, such as http://127.0.0.1:8080"
    )
    way.add_argument(
        "--start", action="store_true", help="start one here, with SmolLM2-135M"
    )
    way.add_argument(
        "--model", help="a causal model of transformers, with torch installed"
    )
    return made.parse_args()


@contextmanager
def _language_model(options: argparse.Namespace) -> Iterator[TokenLogProbs]:
    if options.model:
        yield HuggingFaceModel(options.model)
    elif options.server:
        with LlamaServer(options.server) as lm:
            yield lm
    else:
        with started() as url, LlamaServer(url) as lm:
            yield lm


def _parts(groups: Sequence[Group]) -> Iterator[tuple[str, list[int]]]:
    yield f"all {len(groups)} groups", list(range(len(groups)))
    for part in PARTS:
        places = [place for place, group in enumerate(groups) if group.part == part]
        yield f"the {len(places)} {part} groups", places


def _surface(groups: Sequence[Group]) -> dict[str, Scores]:
    """What should tell nothing: else the pairs could be sorted without understanding
    them.
    """
    pairs = [[(group.cause, group.effects[kind]) for group in groups] for kind in KINDS]
    return {
        "(shared words)": np.array(
            [[shared_words(*pair) for pair in row] for row in pairs]
        ),
        "(length)": np.array(
            [[len(effect.split()) for _, effect in row] for row in pairs]
        ),
    }


def _aucs(scores: dict[str, Scores], places: Sequence[int], reading: Reading) -> str:
    rows = []
    for name, values in scores.items():
        cells = [_with_interval(_measure(values, kinds), places) for kinds in AGAINST]
        rows.append([name, *cells, reading.seconds(name)])
    return common.table(["score", *COLUMNS, "seconds per pair"], rows)


def _differences(scores: dict[str, Scores], places: Sequence[int]) -> str:
    rows = []
    for one, other in COMPARED:
        first = [_measure(scores[one], kinds) for kinds in AGAINST]
        second = [_measure(scores[other], kinds) for kinds in AGAINST]
        cells = [
            _with_interval(_less(a, b), places)
            for a, b in zip(first, second, strict=True)
        ]
        rows.append([f"{one}, less {other}", *cells])
    return common.table(["scores", *COLUMNS], rows)


Measure = Callable[[Sequence[int]], float]


def _measure(values: Scores, kinds: Sequence[int]) -> Measure:
    return lambda places: auc(
        values[0, places].tolist(), values[np.ix_(kinds, places)].ravel().tolist()
    )


def _less(one: Measure, other: Measure) -> Measure:
    return lambda places: one(places) - other(places)


def _with_interval(measure: Measure, places: Sequence[int]) -> str:
    """The groups are drawn again, each with all its pairs: they share a cause."""
    random = np.random.default_rng(0)
    drawn = random.choice(np.asarray(places), size=(ROUNDS, len(places)))
    low, high = np.percentile([measure(row) for row in drawn], [2.5, 97.5])
    return f"{measure(places):.2f} ({low:.2f} to {high:.2f})"


def _accepted(scores: dict[str, Scores], reading: Reading) -> str:
    rules = [("pmi", PMI_MIN, "the paper's threshold")]
    rules += [
        (name, reading.threshold(name), "95th percentile") for name in reading.scorers
    ]
    rows = []
    for name, threshold, origin in rules:
        shares = (scores[name] > threshold).mean(axis=1)
        cells = [f"{share:.0%}" for share in shares]
        rows.append([f"{name} above {threshold:.2f} ({origin})", *cells])
    return common.table(["rule", *KINDS], rows)


def _orders(reading: Reading) -> str:
    rows = []
    for name in reading.scorers:
        right = reading.right_order(name)
        low, high = bootstrap_interval(right.tolist())
        rows.append([name, f"{right.mean():.0%} ({low:.0%} to {high:.0%})"])
    return common.table(
        ["scorer", "causal pairs that score higher in the right order"], rows
    )


if __name__ == "__main__":
    sys.exit(main())
