"""NL-Logic: statements with typed variables, and the comparison of entities (Goal-Mem
2.1).

An `Atom` is a sentence with variables in it, such as `Tom is married to (w:person)`.
Other ways to write a variable are read too; what looks like one and cannot be read
makes an atom malformed. Two names are compared by what they spell. Nothing here calls a
model.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_NAME = r"[^\W\d][\w-]{0,31}"
_PLAIN_TYPE = r"[^()\[\]{}<>:\s][^()\[\]{}<>:]{0,59}"
_VARIABLE = re.compile(rf"\(\s*({_NAME})\s*:\s*({_PLAIN_TYPE}?)\s*\)")
_LOOSE = re.compile(
    rf"[(\[{{<]\s*\??({_NAME})\s*[:：]\s*({_PLAIN_TYPE}(?:\([^()]*\))?)\s*[)\]}}>]"
    rf"|[(\[{{<]\s*(\??{_NAME})\s*[)\]}}>]|(?<!\w)(\?{_NAME})"
)
"""A variable in other brackets, or without its type: `{w:person}`, `(?w)`, `(x:drink
(hot))`.
"""
_LEFT_OVER = re.compile(
    r"[(\[{<][^()\[\]{}<>]*(?<!\d):(?!\d)|[(\[{<]\s*\w{1,2}\s*[)\]}>]"
)
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
    """One statement; each `(name:type)` in its text is a variable."""

    text: str
    # it is the user's own text: what looks like a variable in it is none
    plain: bool = False

    @classmethod
    def parse(cls, text: str) -> "Atom":
        """Read the in-line form; what only looks like a variable stays text."""
        return cls(
            _VARIABLE.sub(lambda found: f"({found[1]}:{found[2].strip()})", text)
        )

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Each variable once, in the order of its first place."""
        found = [] if self.plain else _VARIABLE.findall(self.text)
        return tuple(dict.fromkeys(Variable(name, kind) for name, kind in found))

    @property
    def is_malformed(self) -> bool:
        """True when something in the text looks like a variable and cannot be read as
        one.
        """
        return bool(_LEFT_OVER.search(_VARIABLE.sub("()", self.text)))

    def apply(self, entities: Mapping[str, str]) -> "Atom":
        """The atom with entities in the place of the variables that they are
        bound to.
        """
        if self.plain:
            return self
        return Atom(
            _VARIABLE.sub(lambda found: entities.get(found[1], found[0]), self.text)
        )

    def canonical(self) -> str:
        """The same text for atoms that differ only in their variables' names, case or
        articles.
        """
        if self.plain:
            return _bare(self.text)
        names = list(dict.fromkeys(variable.name for variable in self.variables))
        numbered = _VARIABLE.sub(
            lambda v: f" v{names.index(v[1]) + 1} {v[2]} ", self.text
        )
        return _bare(numbered)

    def __str__(self) -> str:
        return self.text


def in_line_form(text: str, names: Collection[str] = ()) -> str:
    """A statement with its variables as `(name:type)`, whichever way a model wrote
    them.

    Args:
        names: names of variables; only these are read without their type and question
            mark.
    """

    def written(found: re.Match[str]) -> str:
        name = found[1] or (found[3] or found[4]).lstrip("?")
        marked = found[1] or (found[3] or found[4]).startswith("?")
        kind = " ".join(re.sub(r"[()]", " ", found[2] or "").split()) or "thing"
        return f"({name}:{kind})" if marked or name in names else found[0]

    return _LOOSE.sub(written, text)


def as_query(text: str, names: Collection[str] = ()) -> str:
    """Words to search for: the type of each variable in its place."""
    return _VARIABLE.sub(lambda found: found[2], in_line_form(text, names)).strip()


def _bare(text: str) -> str:
    words = _PUNCTUATION.sub(" ", text.casefold())
    return " ".join(_ARTICLES.sub(" ", words).split())


def plain_entity(name: str) -> str:
    """A name in lower case, without accents, leading article and surrounding
    punctuation.
    """
    folded = unicodedata.normalize("NFKD", name.casefold())
    letters = "".join(char for char in folded if not unicodedata.combining(char))
    bare = _EDGES.sub("", " ".join(letters.split()))
    return _DETERMINER.sub("", bare)


def same_entity(one: str, other: str) -> bool:
    """True for two spellings of one name: `the Ceramic lamp` and `ceramic lamp`."""
    return plain_entity(one) == plain_entity(other)
