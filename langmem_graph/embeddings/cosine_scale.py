"""What a cosine of an embedder says: one scale for all of them.

A cosine means something else in each embedder: unrelated sentences have .06 with MiniLM
and .73 with multilingual-e5-small, an answer and its question .47 and .80. Weights and
floors are chosen once, for cosines on this scale.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PAIRS = (
    ("I moved to Lisbon in March.", "Where does the user live now?"),
    ("My sister is allergic to peanuts.", "What can her sister not eat?"),
    ("The meeting was put off until Thursday.", "When does the meeting take place?"),
    ("We adopted a grey cat called Minka.", "What pet do they have?"),
    ("I prefer tea without sugar.", "How does she take her tea?"),
    ("The invoice came to 420 euros.", "How much was the bill?"),
    ("My bike was stolen at the station.", "What happened to the bicycle?"),
    ("He is learning the cello.", "Which instrument does he play?"),
    ("The server crashes when two users log in.", "Why does the program fail?"),
    ("Grandmother's recipe needs six eggs.", "How many eggs go into the cake?"),
    ("I want to run a marathon next year.", "What is the plan for sports?"),
    ("The doctor told me to rest my knee.", "What did the physician advise?"),
)
"""Statements, and questions that they answer; each is unrelated to all other pairs."""
UNIT = 0.4
"""The value of an answer to its question; MiniLM's own distance, so that its cosines
keep their size.
"""
LEAST_DISTANCE = 0.02
"""An embedder that tells no answer from other texts would be stretched without end."""
Scores = NDArray[np.float64]


@dataclass(frozen=True)
class CosineScale:
    """Two points of an embedder's scale.

    Attributes:
        unrelated: the mean cosine of unrelated sentences; it becomes 0.
        alike: that of answers and their questions; it becomes `UNIT`.
    """

    unrelated: float
    alike: float

    def of(self, cosines: Scores) -> Scores:
        """The cosines on the common scale; 0, which stands for none, stays 0."""
        distance = max(self.alike - self.unrelated, LEAST_DISTANCE)
        scaled = (cosines - self.unrelated) * (UNIT / distance)
        return np.where(cosines != 0, scaled, 0.0)


PLAIN = CosineScale(unrelated=0.0, alike=UNIT)
"""The scale on which cosines stay what they are."""


def measured_scale(
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
) -> CosineScale:
    """The scale of an embedder, measured by one call with 24 short sentences.

    Args:
        embed: gives unit vectors of shape (texts, size).
    """
    statements, questions = zip(*PAIRS, strict=True)
    vectors = embed([*statements, *questions])
    cosines = vectors[: len(PAIRS)] @ vectors[len(PAIRS) :].T
    others = cosines[~np.eye(len(PAIRS), dtype=bool)]
    return CosineScale(float(others.mean()), float(np.diag(cosines).mean()))
