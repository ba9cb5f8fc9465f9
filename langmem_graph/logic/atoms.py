"""Atoms: sentences with typed variables in them, written `Tom is married to (w:person)`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from langmem_graph.errors import InvalidInputError

_NAME = r"[A-Za-z_]\w{0,31}"
_TYPE = r"[^():\s][^():]{0,59}"
_VARIABLE = re.compile(rf"\(\s*({_NAME})\s*:\s*({_TYPE}?)\s*\)")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")


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
