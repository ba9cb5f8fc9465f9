"""NL-Logic: sentences with typed variables, and what they are bound to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.errors import InvalidInputError
from langmem_graph.reasoning.nl_logic import (
    Atom,
    Binding,
    ConflictingBindingsError,
    Rule,
    Substitution,
    Variable,
    contradicts,
    same_entity,
)

names = st.from_regex(r"[a-z]\w{0,8}", fullmatch=True).filter(str.isascii)
types = st.from_regex(r"[a-z][a-zé ]{0,12}[a-zé]", fullmatch=True)
variables = st.builds(Variable, names, types)
texts = st.text(
    st.characters(blacklist_characters="():", blacklist_categories=("Cs",)), max_size=12
)
atoms = st.builds(lambda parts: Atom(tuple(parts)), st.lists(texts | variables, max_size=6))
entities = st.sampled_from(["Lena", "lena", "the lamp", "Lamp", "Oslo", "7 June", "Tom's dog"])
bindings = st.builds(Binding, entities, st.lists(st.sampled_from("abcd"), unique=True).map(tuple))
substitutions = st.builds(Substitution, st.dictionaries(st.sampled_from("xyzw"), bindings))


def test_the_inline_form_is_read() -> None:
    atom = Atom.parse("(w:person) liked (g : gift card), said (w:person)")
    assert atom.variables == (Variable("w", "person"), Variable("g", "gift card"))
    assert str(atom) == "(w:person) liked (g:gift card), said (w:person)"
    assert str(atom.apply({"w": "Lena"})) == "Lena liked (g:gift card), said Lena"
    assert not atom.is_ground
    assert atom.apply({"w": "Lena", "g": "lamp"}).is_ground


@pytest.mark.parametrize("text", ["", "plain", "(x)", "(:y)", "(x:)", "((", "(x:(y))", "a (b c:d)"])
def test_what_is_no_variable_stays_text(text: str) -> None:
    assert Atom.parse(text).variables == ()
    assert str(Atom.parse(text)) == text


@pytest.mark.parametrize(
    ("name", "kind"), [("", "x"), ("a b", "x"), ("a", ""), ("a", "b)"), ("a", " b")]
)
def test_variables_are_checked(name: str, kind: str) -> None:
    with pytest.raises(InvalidInputError, match="name:type"):
        Variable(name, kind)


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


@given(atoms, st.randoms())
def test_renaming_changes_nothing_but_names(atom: Atom, random: object) -> None:
    own = sorted({v.name for v in atom.variables})
    fresh = {name: f"fresh{place}" for place, name in enumerate(own)}
    back = {new: old for old, new in fresh.items()}
    renamed = atom.renamed(fresh)
    assert renamed.canonical() == atom.canonical()
    assert renamed.renamed(back) == atom
    assert renamed.constants == atom.constants


def test_atoms_that_say_something_else_are_told_apart() -> None:
    one = Atom.parse("(x:person) likes (y:person)")
    assert one.canonical() != Atom.parse("(x:person) likes (x:person)").canonical()
    assert one.canonical() != Atom.parse("(x:person) likes (y:city)").canonical()
    assert one.canonical() == Atom.parse("The (a:Person) likes  (b:person)!").canonical()


@given(substitutions, substitutions)
def test_merging_is_symmetric(one: Substitution, other: Substitution) -> None:
    assert one.conflicts(other) == other.conflicts(one)
    if one.conflicts(other):
        with pytest.raises(ConflictingBindingsError) as caught:
            one.merge(other)
        assert caught.value.variables == one.conflicts(other)
        return
    there, back = one.merge(other), other.merge(one)
    assert there.bindings.keys() == back.bindings.keys()
    for name, binding in there.bindings.items():
        assert binding.agrees(back.bindings[name])
        assert set(binding.facts) == set(back.bindings[name].facts)


@given(substitutions, substitutions, substitutions)
def test_merging_is_associative(a: Substitution, b: Substitution, c: Substitution) -> None:
    if a.conflicts(b) or b.conflicts(c) or a.conflicts(c):
        return
    assert a.merge(b).merge(c) == a.merge(b.merge(c))


@given(substitutions)
def test_merging_with_itself_or_nothing_changes_nothing(one: Substitution) -> None:
    assert one.merge(one) == one
    assert one.merge(Substitution()) == one == Substitution().merge(one)
    assert hash(one) == hash(one.merge(one))


@given(substitutions, atoms)
def test_a_substitution_can_be_renamed_with_its_atom(one: Substitution, atom: Atom) -> None:
    fresh = {name: f"{name}_1" for name in "xyzw"}
    assert atom.renamed(fresh).apply(one.renamed(fresh).entities) == atom.apply(
        one.entities
    ).renamed(fresh)


def test_renaming_two_variables_into_one_unifies_them() -> None:
    two = Substitution({"x": Binding("Lena", ("a",)), "y": Binding("the Lena", ("b",))})
    assert two.renamed({"y": "x"}) == Substitution({"x": Binding("Lena", ("a", "b"))})
    with pytest.raises(ConflictingBindingsError):
        Substitution({"x": Binding("Lena"), "y": Binding("Tom")}).renamed({"y": "x"})


def test_a_substitution_cannot_be_changed() -> None:
    one = Substitution({"x": Binding("Lena")})
    with pytest.raises(TypeError):
        one.bindings["y"] = Binding("Tom")  # type: ignore[index]


def test_entities_are_compared_by_what_they_name() -> None:
    assert same_entity("The ceramic lamp.", "ceramic  Lamp")
    assert same_entity("José", "jose")
    assert not same_entity("Lena", "Lena Novak")


@pytest.mark.parametrize(
    ("entity", "kind", "against"),
    [
        ("Lena", "price", True),
        ("7", "city", True),
        ("€ 40", "price", False),
        ("forty euros", "price", False),
        ("next Friday", "date", False),
        ("Lena", "person", False),
        ("Room 7", "place", False),
        ("anything", "gizmo", False),
        ("2019", "year", False),
        ("blue", "time of day", True),
    ],
)
def test_types_are_contradicted_only_where_it_is_certain(
    entity: str, kind: str, against: bool
) -> None:
    assert contradicts(entity, kind) is against


def test_rules_explain() -> None:
    rule = Rule(
        Atom.parse("(w:person) is the brother's wife"),
        (Atom.parse("Tom is the brother"), Atom.parse("Tom is married to (w:person)")),
        "common sense",
    )
    assert str(rule) == (
        "(w:person) is the brother's wife ← Tom is the brother ∧ Tom is married to (w:person)"
    )
    apart = rule.renamed_apart("_2")
    assert {v.name for v in apart.head.variables} == {"w_2"}
    assert [atom.canonical() for atom in apart.body] == [atom.canonical() for atom in rule.body]
