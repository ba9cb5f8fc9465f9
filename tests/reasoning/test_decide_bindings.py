"""What code checks of a binding, and what decides between values."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.reasoning.decide_bindings import bind, decide, stands_in
from langmem_graph.reasoning.state import Bound, Proof, Subgoal
from langmem_graph.retrieval.quoted_context import FactAliases
from langmem_graph.schemas import Fact


def _proof(*atoms: str, **bound: str) -> Proof:
    goals = [Subgoal(id=f"s{n}", atom=atom, query="q") for n, atom in enumerate(atoms, 1)]
    known = {name: Bound(entity=entity, facts=["x"]) for name, entity in bound.items()}
    return Proof(subgoals=goals, bindings=known)


def _shown(*texts: str) -> FactAliases:
    return FactAliases.of([Fact(id=f"id{n}", text=text) for n, text in enumerate(texts, 1)])


def _bound(proof: Proof, shown: FactAliases, *bindings: tuple[str, str, list[str]]) -> list[Any]:
    rows = [{"variable": v, "entity": e, "facts": f} for v, e, f in bindings]
    return bind(proof, Unification.model_validate({"bindings": rows}), shown)


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (("z", "Lena", ["f1"]), "no such variable"),
        (("w", "Lena", ["f7"]), "cites no fact"),
        (("w", "Nora", ["f1"]), "does not stand"),
        (("w", "", ["f1"]), "does not stand"),
        (("p", "Lena", ["f1"]), "is no price"),
        (("h", "Lena", ["f1"]), "is already Ana"),
    ],
)
def test_bindings_are_refused_with_a_reason(binding: Any, reason: str) -> None:
    proof = _proof("(w:person) has (p:price) of (h:person)", h="Ana")
    (verdict,) = _bound(proof, _shown("Lena paid"), binding)
    assert not verdict["accepted"]
    assert reason in verdict["reason"]
    assert set(proof.bindings) == {"h"}


def test_a_binding_that_repeats_what_is_known_adds_its_facts() -> None:
    proof = _proof("(w:person) is here", w="Lena")
    _bound(proof, _shown("lena paid"), ("w", "lena", ["f1"]))
    assert proof.bindings["w"].entity == "Lena"
    assert proof.bindings["w"].facts == ["x", "id1"]


@given(st.permutations([("w", "Lena", ["f1"]), ("w", "Nora", ["f2"]), ("g", "lamp", ["f1"])]))
@settings(max_examples=10)
def test_the_order_of_proposals_decides_nothing(order: Sequence[Any]) -> None:
    proof = _proof("(w:person) has (g:gift)")
    _bound(proof, _shown("Lena has a lamp", "Nora has a lamp"), *order)
    assert set(proof.bindings) == {"g"}
    (conflict,) = proof.conflicts
    assert conflict.values == {"Lena": ["id1"], "Nora": ["id2"]}


def test_a_statement_is_proved_only_when_nothing_in_it_is_open() -> None:
    proof = _proof("(w:person) has (g:gift)", w="Lena")
    answer = Unification.model_validate({"grounded": [{"subgoal": "s1", "facts": ["f1"]}]})
    bind(proof, answer, _shown("Lena has it"))
    assert not proof.subgoals[0].grounded


def test_a_statement_follows_from_all_refinements_of_one_round() -> None:
    proof = _proof("(w:person) is the wife", w="Lena")
    for n, depth in ((2, 1), (3, 1), (4, 2)):
        proof.subgoals.append(Subgoal(id=f"s{n}", atom="a", query="q", parent="s1", depth=depth))
    shown = _shown("fact")

    def ground(*ids: str) -> bool:
        rows = [{"subgoal": one, "facts": ["f1"]} for one in ids]
        bind(proof, Unification.model_validate({"grounded": rows}), shown)
        return proof.subgoals[0].grounded

    assert not ground("s2")
    assert ground("s3")


@pytest.mark.parametrize(
    ("entity", "text", "stands"),
    [
        ("Lena", "We met Lena, my sister-in-law.", True),
        ("lena's", "Lena liked it", False),
        ("the ceramic lamp", "a Ceramic lamp", True),
        ("Al", "Already there", False),
        ("Al", "It was Al.", True),
        ("Martines", "Dr. Martinez called", True),
        ("Oslo", "Porto", False),
        ("", "anything", False),
        ("东京", "我住在东京。", True),
    ],
)
def test_names_stand_in_texts(entity: str, text: str, stands: bool) -> None:
    assert stands_in(entity, Fact(id="x", text=text)) is stands


# --- what decides between values ---


def _fact(number: int, **fields: Any) -> Fact:
    base = {"id": f"i{number}", "text": "t", "at": f"2024-01-0{number}T00:00:00Z"}
    return Fact.model_validate(base | fields)


HOME = {"subject": "user", "attribute": "home"}


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        ({"outdated": True}, {}, "b"),
        ({}, {"outdated": True}, "a"),
        ({}, {"confirmation": "draft"}, "a"),
        (HOME, HOME, "b"),
        (HOME, {**HOME, "attribute": "work"}, None),
        ({}, {}, None),
        ({**HOME, "confirmation": "confirmed"}, {**HOME, "confirmation": "draft"}, "a"),
    ],
)
def test_corrections_and_dates_decide(one: Any, other: Any, winner: str | None) -> None:
    values = {"a": [_fact(1, **one)], "b": [_fact(2, **other)]}
    for order in permutations(values.items()):
        assert decide(dict(order)) == winner


def test_a_tie_is_decided_by_nobody() -> None:
    assert decide({"a": [_fact(1, **HOME)], "b": [_fact(1, **HOME)]}) is None
