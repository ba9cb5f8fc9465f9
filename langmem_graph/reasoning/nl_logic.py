"""NL-Logic: statements with typed variables, and the comparison of entities (Goal-Mem 2.1).

An `Atom` is a sentence with variables in it, such as `Tom is married to (w:person)`. Two names are
compared by what they spell, and an entity is refused for a type only where it certainly does not
fit. Nothing here calls a model.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from langmem_graph.errors import InvalidInputError

_NAME = r"[A-Za-z_]\w{0,31}"
_TYPE = r"[^():\s][^():]{0,59}"
_VARIABLE = re.compile(rf"\(\s*({_NAME})\s*:\s*({_TYPE}?)\s*\)")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_DETERMINER = re.compile(r"^(?:a|an|the|my|his|her|their|our)\s+")
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


@dataclass(frozen=True)
class Variable:
    """An unknown entity: a short name, and a noun for its type.

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
        """True when no variable is left."""
        return not self.variables

    def apply(self, entities: Mapping[str, str]) -> "Atom":
        """The atom with entities in the place of the variables that they are bound to."""
        return Atom(
            tuple(
                entities.get(part.name, part) if isinstance(part, Variable) else part
                for part in self.parts
            )
        )

    def canonical(self) -> str:
        """The same text for atoms that differ only in their variables' names, case or articles."""
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
    """The parts with neighbouring texts joined and empty ones dropped."""
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, str)):
        if not is_text:
            yield from run
        elif text := "".join(map(str, run)):
            yield text


def _bare(text: str) -> str:
    words = _PUNCTUATION.sub(" ", text.casefold())
    return " ".join(_ARTICLES.sub(" ", words).split())


def plain_entity(name: str) -> str:
    """A name in lower case, without accents, leading article and surrounding punctuation."""
    folded = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(char for char in folded if not unicodedata.combining(char))
    bare = _EDGES.sub("", " ".join(letters.split()))
    return _DETERMINER.sub("", bare)


def same_entity(one: str, other: str) -> bool:
    """True for two spellings of one name: `the Ceramic lamp` and `ceramic lamp`."""
    return plain_entity(one) == plain_entity(other)


def contradicts(entity: str, kind: str) -> bool:
    """True when an entity certainly is not of a type: a word for a price, a number for a city.

    Unknown types and names contradict nothing: those the model has judged.
    """
    words = set(plain_entity(kind).replace("-", " ").split())
    name = plain_entity(entity)
    counted = any(char.isdigit() for char in name) or bool(_NUMBER_WORDS.search(name))
    if words & _NUMERIC_TYPES:
        return not counted
    return bool(words & _NAMED_TYPES) and not any(char.isalpha() for char in name)
