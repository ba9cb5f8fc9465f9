"""NL-Logic: sentences with typed variables, and how entities are compared."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.reasoning.nl_logic import (
    Atom,
    Variable,
    as_query,
    in_line_form,
    same_entity,
)

names = st.from_regex(r"[a-z]\w{0,8}", fullmatch=True).filter(str.isascii)
types = st.from_regex(r"[a-z][a-zé ]{0,12}[a-zé]", fullmatch=True)
variables = st.builds(Variable, names, types)
texts = st.text(
    st.characters(blacklist_characters="():", blacklist_categories=("Cs",)), max_size=12
)
atoms = st.lists(texts | variables.map(str), max_size=6).map("".join).map(Atom.parse)


def test_the_inline_form_is_read() -> None:
    atom = Atom.parse("(w:person) liked (g : gift card), said (w:person)")
    assert atom.variables == (Variable("w", "person"), Variable("g", "gift card"))
    assert str(atom) == "(w:person) liked (g:gift card), said (w:person)"
    assert str(atom.apply({"w": "Lena"})) == "Lena liked (g:gift card), said Lena"
    assert not atom.apply({"w": "Lena", "g": "lamp"}).variables


@pytest.mark.parametrize(
    "text", ["", "plain", "(x)", "(:y)", "(x:)", "((", "(x:(y))", "a (b c:d)"]
)
def test_what_is_no_variable_stays_text(text: str) -> None:
    assert Atom.parse(text).variables == ()
    assert str(Atom.parse(text)) == text


@given(atoms)
def test_reading_what_was_written_gives_the_same(atom: Atom) -> None:
    assert Atom.parse(str(atom)) == atom


@given(st.text(max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    atom = Atom.parse(text)
    assert Atom.parse(str(atom)) == atom


@given(atoms, st.dictionaries(names, st.just("Lena")))
def test_applying_twice_is_applying_once(atom: Atom, bound: dict[str, str]) -> None:
    once = atom.apply(bound)
    assert once.apply(bound) == once
    assert not {v.name for v in once.variables} & bound.keys()


@given(atoms)
def test_the_canonical_form_does_not_depend_on_names(atom: Atom) -> None:
    renamed = re.sub(r"\((\w+):", r"(fresh_\1:", str(atom))
    assert Atom.parse(renamed).canonical() == atom.canonical()


def test_atoms_that_say_something_else_are_told_apart() -> None:
    one = Atom.parse("(x:person) likes (y:person)")
    assert one.canonical() != Atom.parse("(x:person) likes (x:person)").canonical()
    assert one.canonical() != Atom.parse("(x:person) likes (y:city)").canonical()
    assert (
        one.canonical() == Atom.parse("The (a:Person) likes  (b:person)!").canonical()
    )


def test_entities_are_compared_by_what_they_name() -> None:
    assert same_entity("The ceramic lamp.", "ceramic  Lamp")
    assert same_entity("José", "jose")
    assert not same_entity("Lena", "Lena Novak")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("(w) saw {g:gift}", "(w:thing) saw (g:gift)"),
        ("(?w:person) is [g : gift card]", "(w:person) is (g:gift card)"),
        ("?v came with <gift-1:gift>", "(v:thing) came with (gift-1:gift)"),
        ("the user drank (x:drink (hot))", "the user drank (x:drink hot)"),
        ("(人:人物)住在(c：城市)", "(人:人物)住在(c:城市)"),
        (
            "Tom (brother) came at 10:30 (see below)",
            "Tom (brother) came at 10:30 (see below)",
        ),
    ],
)
def test_other_ways_to_write_a_variable_are_read(written: str, read: str) -> None:
    assert in_line_form(written, ["w"]) == read
    assert not Atom.parse(read).is_malformed


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ("(w:person) plays (i:instrument)", "person plays instrument"),
        ("(w) plays the cello", "thing plays the cello"),
        ("?w (cello)", "thing (cello)"),
    ],
)
def test_variables_are_no_words_to_search_for(written: str, query: str) -> None:
    assert as_query(written, ["w"]) == query


@pytest.mark.parametrize(
    "text", ["(x)", "(:y)", "(x:)", "(x:(y))", "a (b c:d)", "{x: y"]
)
def test_what_only_looks_like_a_variable_is_noticed(text: str) -> None:
    assert Atom.parse(in_line_form(text)).is_malformed
