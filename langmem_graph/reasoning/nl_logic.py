"""Entities: when two names mean the same, and when a name cannot be of a type."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from types import MappingProxyType
from typing import Literal

from langmem_graph.errors import InvalidInputError

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_ARTICLE = re.compile(r"^(?:a|an|the|my|his|her|their|our)\s+")
_NUMERIC_TYPES = frozenset(
    "number amount price cost sum count quantity age year date day time hour duration distance "
    "weight height length size percentage temperature".split()
)
_NAMED_TYPES = frozenset(
    "person man woman child friend relative brother sister wife husband mother father pet animal "
    "dog cat city town country place street restaurant café cafe hotel shop company band".split()
)
_NUMBER_WORDS = re.compile(
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|"
    r"thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|half|dozen|noon|"
    r"midnight|morning|afternoon|evening|night|today|yesterday|tomorrow|\w+day|week\w*|month\w*|"
    r"year\w*|spring|summer|autumn|fall|winter|january|february|march|april|may|june|july|august|"
    r"september|october|november|december|easter|christmas|small|medium|large|short|long|tall)\b"
)

_NAME = r"[A-Za-z_]\w{0,31}"
_TYPE = r"[^():\s][^():]{0,59}"
_VARIABLE = re.compile(rf"\(\s*({_NAME})\s*:\s*({_TYPE}?)\s*\)")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")

Origin = Literal["decomposition", "common sense"]


def plain_entity(name: str) -> str:
    """A name without case, accents, an article before it and punctuation around it."""
    folded = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(char for char in folded if not unicodedata.combining(char))
    bare = _EDGES.sub("", " ".join(letters.split()))
    return _ARTICLE.sub("", bare)


def same_entity(one: str, other: str) -> bool:
    """True for two spellings of one name: `the Ceramic lamp` and `ceramic lamp`."""
    return plain_entity(one) == plain_entity(other)


def contradicts(entity: str, kind: str) -> bool:
    """True when an entity certainly is not of a type: a word for a price, a bare number for a city.

    Unknown types and names contradict nothing; the model has judged those.
    """
    words = set(plain_entity(kind).replace("-", " ").split())
    name = plain_entity(entity)
    counted = any(char.isdigit() for char in name) or bool(_NUMBER_WORDS.search(name))
    if words & _NUMERIC_TYPES:
        return not counted
    return bool(words & _NAMED_TYPES) and not any(char.isalpha() for char in name)


@dataclass(frozen=True)
class Variable:
    """Something that is looked for: a short name, and a noun for what it may be.

    Raises:
        InvalidInputError: for a name that is no word, or a type with brackets or colons.
    """

    name: str
    type: str = "thing"

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(str(self)) or self.type != self.type.strip():
            raise InvalidInputError(
                f"{str(self)[:100]!r} is no variable. Write (name:type): a word of up to 32 "
                "letters, and a type of up to 60 characters without brackets and colons."
            )

    def __str__(self) -> str:
        return f"({self.name}:{self.type})"


@dataclass(frozen=True)
class Atom:
    """One statement, as text and variables in turn."""

    parts: tuple[str | Variable, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(_joined(self.parts)))

    @classmethod
    def parse(cls, text: str) -> "Atom":
        """Read the in-line form; what only looks like a variable stays text."""
        parts: list[str | Variable] = []
        end = 0
        for found in _VARIABLE.finditer(text):
            parts += [text[end : found.start()], Variable(found[1], found[2].strip())]
            end = found.end()
        return cls((*parts, text[end:]))

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Each variable once, in the order of its first place."""
        return tuple(dict.fromkeys(part for part in self.parts if isinstance(part, Variable)))

    @property
    def constants(self) -> str:
        """The text without the variables."""
        return " ".join(part for part in self.parts if isinstance(part, str))

    @property
    def is_ground(self) -> bool:
        """True when nothing is open any more."""
        return not self.variables

    def apply(self, entities: Mapping[str, str]) -> "Atom":
        """With entities in the place of the variables that they are bound to."""
        return Atom(
            tuple(
                entities.get(part.name, part) if isinstance(part, Variable) else part
                for part in self.parts
            )
        )

    def renamed(self, names: Mapping[str, str]) -> "Atom":
        """With other names for variables (α-renaming); the types stay."""
        return Atom(
            tuple(
                Variable(names.get(part.name, part.name), part.type)
                if isinstance(part, Variable)
                else part
                for part in self.parts
            )
        )

    def canonical(self) -> str:
        """The same text for atoms that differ in their variables' names, case or articles alone."""
        order: dict[str, str] = {}
        for variable in self.variables:
            order.setdefault(variable.name, f"v{len(order) + 1}")
        texts = [
            f" {order[part.name]} {_bare(part.type)} " if isinstance(part, Variable) else part
            for part in self.parts
        ]
        return _bare(" ".join(texts))

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def _joined(parts: Iterable[str | Variable]) -> Iterable[str | Variable]:
    """Neighbouring texts as one, empty ones dropped."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, str)):
        if not is_text:
            yield from run
        elif text := "".join(map(str, run)):
            yield text


def _bare(text: str) -> str:
    words = _PUNCTUATION.sub(" ", text.casefold())
    return " ".join(_ARTICLES.sub(" ", words).split())


@dataclass(frozen=True)
class Rule:
    """`head` follows from all atoms of `body`.

    `decomposition` is how a request was split; `common sense` is what a refinement supposes.
    """

    head: Atom
    body: tuple[Atom, ...]
    origin: Origin

    def renamed_apart(self, suffix: str) -> "Rule":
        """With a suffix on every variable, so that it shares none with another rule."""
        atoms = (self.head, *self.body)
        names = {v.name: f"{v.name}{suffix}" for atom in atoms for v in atom.variables}
        return Rule(
            self.head.renamed(names), tuple(atom.renamed(names) for atom in self.body), self.origin
        )

    def __str__(self) -> str:
        return f"{self.head} ← {' ∧ '.join(map(str, self.body))}"


class ConflictingBindingsError(ValueError):
    """Two substitutions bind variables to different entities; `variables` names them."""

    def __init__(self, variables: Iterable[str]) -> None:
        self.variables = tuple(variables)
        super().__init__(f"bound to different entities: {', '.join(self.variables)}")


@dataclass(frozen=True)
class Binding:
    """An entity with the ids of the facts it was found in, in the order they were found."""

    entity: str
    facts: tuple[str, ...] = ()

    def agrees(self, other: "Binding") -> bool:
        """True when both mean the same entity."""
        return same_entity(self.entity, other.entity)

    def joined(self, other: "Binding") -> "Binding":
        """The same entity with the facts of both."""
        return Binding(self.entity, tuple(dict.fromkeys((*self.facts, *other.facts))))


@dataclass(frozen=True)
class Substitution:
    """Bindings by variable name; immutable, and equal when they bind the same."""

    bindings: Mapping[str, Binding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ordered = dict(sorted(self.bindings.items()))
        object.__setattr__(self, "bindings", MappingProxyType(ordered))

    def __hash__(self) -> int:
        return hash(tuple(self.bindings.items()))

    @property
    def entities(self) -> dict[str, str]:
        """Variable name to entity, as `Atom.apply` takes it."""
        return {name: binding.entity for name, binding in self.bindings.items()}

    def conflicts(self, other: "Substitution") -> tuple[str, ...]:
        """Variables that the two bind to different entities."""
        shared = self.bindings.keys() & other.bindings.keys()
        return tuple(sorted(n for n in shared if not self.bindings[n].agrees(other.bindings[n])))

    def merge(self, other: "Substitution") -> "Substitution":
        """Both together; where they agree, the spelling is this one's and the facts are both's.

        Raises:
            ConflictingBindingsError: they bind a variable to different entities.
        """
        if different := self.conflicts(other):
            raise ConflictingBindingsError(different)
        merged = dict(self.bindings)
        for name, binding in other.bindings.items():
            merged[name] = merged[name].joined(binding) if name in merged else binding
        return Substitution(merged)

    def renamed(self, names: Mapping[str, str]) -> "Substitution":
        """With other names for variables (α-renaming).

        Raises:
            ConflictingBindingsError: two variables get one name and have different entities.
        """
        done = Substitution()
        for name, binding in self.bindings.items():
            done = done.merge(Substitution({names.get(name, name): binding}))
        return done
