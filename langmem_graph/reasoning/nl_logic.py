"""NL-Logic: statements with typed variables, and the comparison of entities (Goal-Mem 2.1).

An `Atom` is a sentence with variables in it, such as `Tom is married to (w:person)`. Other ways to
write a variable are read too; what looks like one and cannot be read makes an atom malformed. Two
names are compared by what they spell. Nothing here calls a model.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

_NAME = r"[^\W\d][\w-]{0,31}"
_PLAIN_TYPE = r"[^()\[\]{}<>:\s][^()\[\]{}<>:]{0,59}"
_VARIABLE = re.compile(rf"\(\s*({_NAME})\s*:\s*({_PLAIN_TYPE}?)\s*\)")
_LOOSE = re.compile(
    rf"[(\[{{<]\s*\??({_NAME})\s*[:：]\s*({_PLAIN_TYPE}(?:\([^()]*\))?)\s*[)\]}}>]"
    rf"|[(\[{{<]\s*(\??{_NAME})\s*[)\]}}>]|(?<!\w)(\?{_NAME})"
)
"""A variable in other brackets, or without its type: `{w:person}`, `(?w)`, `(x:drink (hot))`."""
_LEFT_OVER = re.compile(r"[(\[{<][^()\[\]{}<>]*(?<!\d):(?!\d)|[(\[{<]\s*\w{1,2}\s*[)\]}>]")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s]|_")
_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
_DETERMINER = re.compile(r"^(?:a|an|the|my|his|her|their|our)\s+")


@dataclass(frozen=True)
class Variable:
    """An unknown entity: a short name, and a noun for its type."""

    name: str
    type: str = "thing"

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
    def is_malformed(self) -> bool:
        """True when something in the text looks like a variable and cannot be read as one."""
        return any(isinstance(part, str) and _LEFT_OVER.search(part) for part in self.parts)

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


def in_line_form(text: str, names: Collection[str] = ()) -> str:
    """A statement with its variables as `(name:type)`, whichever way a model wrote them.

    Args:
        names: names of variables; only these are read without their type and question mark.
    """

    def written(found: re.Match[str]) -> str:
        name = found[1] or (found[3] or found[4]).lstrip("?")
        marked = found[1] or (found[3] or found[4]).startswith("?")
        kind = " ".join(re.sub(r"[()]", " ", found[2] or "").split()) or "thing"
        return f"({name}:{kind})" if marked or name in names else found[0]

    return _LOOSE.sub(written, text)


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
