"""The pairs of `pairs.jsonl`: a cause, its effect, an event on its topic, an unrelated
one.

Written for this project, as an assistant's memory would hold the sentences. What to
compare was chosen on the `open` part; the `held out` part was written after that, to
confirm it. In both, words and lengths were evened out between the kinds, see
`tests/benchmarks/test_causal_pairs.py`.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("pairs.jsonl")
KINDS = ["causal", "topical", "unrelated"]
PARTS = ["open", "held out"]
_WORD = re.compile(r"[^\W\d_]+")
_ENDING = re.compile(r"(ing|ed|s)$")
_COMMON = frozenset(
    "a about after all also an and at before by for from had has have her his in into "
    "is it its no"
    " not of off on one out over some that the their there this to until up user was "
    "week were with"
    " without".split()
)


@dataclass(frozen=True)
class Group:
    """One cause and what is set against it; `effects` by kind."""

    part: str
    topic: str
    cause: str
    effects: dict[str, str]


def load() -> list[Group]:
    """All groups, the open part first."""
    rows = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [
        Group(
            row["part"], row["topic"], row["cause"], {kind: row[kind] for kind in KINDS}
        )
        for row in rows
    ]


def shared_words(one: str, other: str) -> int:
    """How many telling words two texts share, common endings taken off."""
    return len(_words(one) & _words(other))


def _words(text: str) -> set[str]:
    found = set(_WORD.findall(text.lower())) - _COMMON
    return {_ENDING.sub("", word) for word in found}
