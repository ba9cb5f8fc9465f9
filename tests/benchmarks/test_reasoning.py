"""Reasoning over the written sets: what the README claims, with the real embedder."""

from typing import Any

import pytest

from benchmarks import reasoning
from benchmarks.reasoning import Acts, Hops
from langmem_graph.values.content_words import content
from tests.support.marks import needs_model

SIXTEENTH = pytest.param(16, marks=pytest.mark.stress)
WHOLE = pytest.param(1, marks=[pytest.mark.stress, pytest.mark.timeout(900)])


@pytest.fixture
def every(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of the written sets every so many requests; acts in a memory of a third of the other lines.

    The questions need all lines: among fewer, a look-up alone finds their evidence too.
    """
    nth, load = int(request.param), reasoning.load

    def sampled(name: str) -> list[dict[str, Any]]:
        lines = load(name)
        if name == "acts_memory":
            asked, share = {act["id"] for act in sampled("acts")}, min(nth, 3)
            return [
                line
                for place, line in enumerate(lines)
                if place % share == 0 or line["conflicts_with"] in asked
            ]
        return lines if name.endswith("_memory") else lines[::nth]

    monkeypatch.setattr(reasoning, "load", sampled)
    return nth


@needs_model
@pytest.mark.parametrize("every", [SIXTEENTH, WHOLE], indirect=True)
def test_questions_of_several_hops_find_all_their_evidence(every: int) -> None:
    found: list[Hops] = reasoning.hops()
    assert len(found) >= 30 // every
    assert {one.question["hops"] for one in found} == {2, 3}
    assert sum(one.complete for one in found) >= 0.95 * len(found)
    assert sum(one.right for one in found) >= 0.95 * len(found)
    plain = sum(one.asked.plain_quotes(one.question["evidence"]) for one in found)
    assert plain < sum(one.complete for one in found)
    assert all(one.asked.recall.report.llm_calls <= 7 for one in found)


@needs_model
@pytest.mark.parametrize("every", [WHOLE], indirect=True)
def test_acts_find_what_speaks_against_them(every: int) -> None:
    found: Acts = reasoning.acts()
    assert min(len(found.acts), len(found.controls)) >= 40 // every
    assert sum(found.found()) >= 0.85 * len(found.acts)
    assert sum(found.found_plainly()) < sum(found.found())
    assert sum(found.edges_of_lookups()) == 0
    assert sum(found.over_warned()) == 0


def test_risks_share_no_word_with_what_they_shall_find() -> None:
    lines = {line["conflicts_with"]: line for line in reasoning.load("acts_memory")}
    for act in reasoning.load("acts"):
        line = lines[act["id"]]
        own = content(f"{line['message']} {line['record']}")
        for risk in reasoning.unlike(act["risks"], line):
            for text in (risk["claim"], *risk["examples"]):
                assert not content(text) & own


@pytest.mark.parametrize("name", ["hops_memory", "acts_memory"])
def test_the_memories_are_large_enough(name: str) -> None:
    lines = reasoning.load(name)
    assert len(lines) >= 300
    assert len({line["id"] for line in lines}) == len(lines)


def test_the_evidence_of_a_question_is_what_its_proof_cites() -> None:
    ids = {line["id"] for line in reasoning.load("hops_memory")}
    for question in reasoning.load("hops_questions"):
        cited = {one for proof in question["proofs"] for one in proof["facts"]}
        assert set(question["evidence"]) == cited <= ids, question["id"]
        assert len(cited) == question["hops"]


@needs_model
def test_the_time_of_a_round_is_measured_in_a_memory_without_records() -> None:
    assert "## Time at 20 messages" in reasoning.speed(messages=20, rounds=1)
