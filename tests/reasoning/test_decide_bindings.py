"""What code checks of a binding, and what decides between values."""

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_graph.llm.answer_schemas import Unification
from langmem_graph.reasoning.proof import Bound, Proof, Subgoal
from langmem_graph.reasoning.unify_facts import bind, stands_in
from langmem_graph.results import Fact
from langmem_graph.retrieval.facts import decide
from langmem_graph.retrieval.quoted_context import FactAliases


def _proof(*atoms: str, **bound: str) -> Proof:
    goals = [
        Subgoal(id=f"s{n}", atom=atom, query="q") for n, atom in enumerate(atoms, 1)
    ]
    known = {name: Bound(entity=entity, facts=["x"]) for name, entity in bound.items()}
    return Proof(subgoals=goals, bindings=known)


def _shown(*texts: str) -> FactAliases:
    return FactAliases.of(
        [Fact(id=f"id{n}", text=text) for n, text in enumerate(texts, 1)]
    )


def _bound(
    proof: Proof, shown: FactAliases, *bindings: tuple[str, str, list[str]]
) -> list[Any]:
    rows = [{"variable": v, "entity": e, "facts": f} for v, e, f in bindings]
    return bind(proof, Unification.model_validate({"bindings": rows}), shown)


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        (("z", "Lena", ["f1"]), "no such variable"),
        (("w", "Lena", ["f7"]), "cites no fact"),
        (("w", "Nora", ["f1"]), "does not stand"),
        (("w", "", ["f1"]), "does not stand"),
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


@given(
    st.permutations(
        [("w", "Lena", ["f1"]), ("w", "Nora", ["f2"]), ("g", "lamp", ["f1"])]
    )
)
@settings(max_examples=10)
def test_the_order_of_proposals_decides_nothing(order: Sequence[Any]) -> None:
    proof = _proof("(w:person) has (g:gift)")
    _bound(proof, _shown("Lena has a lamp", "Nora has a lamp"), *order)
    assert set(proof.bindings) == {"g"}
    assert {row.values["w"]: row.facts for row in proof.found_rows()} == {
        "Lena": ["id1"],
        "Nora": ["id1", "id2"],
    }


def test_facts_disagree_where_the_model_says_so() -> None:
    rows = [
        {"variable": "w", "entity": e, "facts": [f]}
        for e, f in (("Lena", "f1"), ("Al", "f2"))
    ]
    proof = _proof("(w:person) is the boss")
    bind(
        proof,
        Unification(bindings=rows, disagree=["w"]),
        _shown("Lena rules", "Al rules"),
    )
    (conflict,) = proof.conflicts
    assert conflict.values == {"Lena": ["id1"], "Al": ["id2"]}
    assert not proof.rows


def test_values_that_belong_together_share_a_row() -> None:
    proof = _proof("(p:person) gave the user (g:gift) in (c:city)")
    given = [
        ("p", "Ana", 1),
        ("g", "scarf", 1),
        ("p", "Ben", 2),
        ("g", "mug", 2),
        ("c", "Ulm", 0),
    ]
    rows = [
        {"variable": v, "entity": e, "facts": ["f1"], "row": n} for v, e, n in given
    ]
    bind(
        proof, Unification(bindings=rows), _shown("In Ulm Ana gave a scarf, Ben a mug")
    )
    assert [row.values for row in proof.found_rows()] == [
        {"c": "Ulm", "p": "Ana", "g": "scarf"},
        {"c": "Ulm", "p": "Ben", "g": "mug"},
    ]
    later = [{"variable": "c", "entity": "Bonn", "facts": ["f1"]}]
    bind(proof, Unification(bindings=later), _shown("Bonn it was"))
    assert proof.bindings["c"].entity == "Ulm"
    assert proof.dropped == ["c = Bonn: is already Ulm"]


def test_a_row_that_does_not_belong_is_taken_out_and_new_ones_stay() -> None:
    proof = _proof("she liked (g:gift)")
    proof.rows = [
        {"g": Bound(entity="lamp", facts=["a"])},
        {"g": Bound(entity="drill")},
    ]
    answer = Unification.model_validate(
        {
            "bindings": [
                {"variable": "g", "entity": "scarf", "facts": ["f1"], "row": 3}
            ],
            "drop": [
                {"row": 2, "why": "It came back."},
                {"row": 3, "why": "It is new."},
            ],
        }
    )
    bind(proof, answer, _shown("She liked the scarf"))
    assert [row["g"].entity for row in proof.rows] == ["lamp", "scarf"]
    assert proof.dropped == ["drill: It came back."]


def test_at_most_twelve_rows_are_kept() -> None:
    names = "ab cd ef gh ij kl mn op qr st uv wx yz".split()
    rows = [{"variable": "w", "entity": name, "facts": ["f1"]} for name in names]
    proof = _proof("(w:person) is here")
    bind(proof, Unification(bindings=rows), _shown(" ".join(names)))
    assert len(proof.found_rows()) == 12


def test_a_statement_is_proved_only_when_nothing_in_it_is_open() -> None:
    proof = _proof("(w:person) has (g:gift)", w="Lena")
    answer = Unification.model_validate(
        {"grounded": [{"subgoal": "s1", "facts": ["f1"]}]}
    )
    bind(proof, answer, _shown("Lena has it"))
    assert not proof.subgoals[0].grounded


def test_a_helper_statement_does_not_prove_its_parent() -> None:
    proof = _proof("(w:person) is the wife", w="Lena")
    proof.subgoals.append(Subgoal(id="s2", atom="a", query="q", parent="s1", depth=1))

    def ground(*ids: str) -> bool:
        rows = [{"subgoal": one, "facts": ["f1"]} for one in ids]
        bind(proof, Unification.model_validate({"grounded": rows}), _shown("fact"))
        return proof.subgoals[0].grounded

    assert not ground("s2")
    assert ground("s1")


@pytest.mark.parametrize(
    ("entity", "text", "stands"),
    [
        ("Lena", "We met Lena, my sister-in-law.", True),
        ("wall slides every day", "Katya told me to do wall slides twice a day", True),
        ("the Quarry Loop trail", "Dunstan likes the Quarry Loop", True),
        ("silver spoon", "Ines loved the copper kettle", False),
        ("room 8", "We sleep in room 7", False),
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
    assert stands_in(entity, [Fact(id="x", text=text)]) is stands


@pytest.mark.parametrize(
    ("entity", "stands"),
    [
        ("2025-03-05", True),
        ("2025-02-28", True),
        ("2025-04-12", True),
        ("2025-03-06", False),
    ],
)
def test_a_day_stands_in_a_header_or_follows_from_the_words(
    entity: str, stands: bool
) -> None:
    said = {"at": "2025-03-05T10:00:00Z", "day": "2025-04-12"}
    fact = Fact.model_validate({"id": "x", "text": "Last Friday I quit my job", **said})
    assert stands_in(entity, [fact]) is stands


# --- what decides between values ---


def _fact(number: int, **fields: Any) -> Fact:
    base = {"id": f"i{number}", "text": "t", "at": f"2024-01-0{number}T00:00:00Z"}
    return Fact.model_validate(base | fields)


HOME = {"subject": "user", "attribute": "home"}
PAST = {
    "labels": [
        {"relation": "ended", "statement": "t", "record_id": "r", "newest_id": "r"}
    ]
}


@pytest.mark.parametrize(
    ("one", "other", "winner"),
    [
        (PAST, {}, "b"),
        ({}, PAST, "a"),
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
