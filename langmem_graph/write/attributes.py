"""attributes: whether two records speak of the same subject and of the same thing about it.

Attribute names are free text. A small table knows the everyday ones; what it does not know is the
same only when the names are, or when the caller's embedder finds them very much alike.
"""

import re
from collections.abc import Callable, Collection
from functools import cache
from typing import Literal, NamedTuple

from langmem_graph.write.words import listed, plain, stem, table, tokens

Likeness = Callable[[str, str], float]
Cardinality = Literal["one", "usually one", "several", "unknown"]
LIKENESS_THRESHOLD = 0.85  # unrelated names reach 0.58 with MiniLM
_SECTIONS: dict[Cardinality, str] = {
    "one": "single",
    "usually one": "usually single",
    "several": "several",
}
USER_WORDS = frozenset(
    "user i me myself speaker nutzer nutzerin utilisateur utilisatrice usuario usuaria".split()
)
_ARTICLES = frozenset("the a an der die das le la el".split())
_FAVOURITE = frozenset("favourite favorite preferred preference".split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LATER_SCOPE = re.compile(r"^(.+?) ?(?:\(([^()]*)\)|\b(?:of|for|at|with) (.+))$")


class Attribute(NamedTuple):
    """An attribute's name, read: its family in the table, and what narrows it down."""

    family: str | None
    scope: frozenset[str]


def same_subject(a: str | None, b: str | None, user_names: Collection[str] = ()) -> bool:
    """Whether both name the same person or thing; None is never the same as anything.

    Args:
        user_names: names of the user. With at least one, `user`, `I`, `me` and these names are
            one person, and `my sister` is the user's. Without, only equal names are the same.
    """
    one, other = subject_key(a, user_names), subject_key(b, user_names)
    return bool(one) and one == other


def subject_key(name: str | None, user_names: Collection[str] = ()) -> tuple[str, ...]:
    """A subject's name in words without articles; empty for None and for names without words."""
    known = {tuple(_subject_words(one)) for one in user_names if one} - {()}
    words = _subject_words(name or "")
    for alias in sorted(known | {(one,) for one in USER_WORDS if known}, key=len, reverse=True):
        rest = words[len(alias) :]
        if tuple(words[: len(alias)]) == alias and rest[:1] in ([], ["'s"]):
            return ("user", *rest)
    return ("user", "'s", *words[1:]) if known and words[:1] == ["my"] else tuple(words)


def is_user(name: str | None, user_names: Collection[str] = ()) -> bool:
    """Whether a subject is the user."""
    return subject_key(name, {*user_names, "user"}) == ("user",)


def _subject_words(name: str) -> list[str]:
    words = re.findall(r"'s\b|[^\s'\"]+", plain(name))
    return words[1:] if len(words) > 1 and words[0] in _ARTICLES else words


def same_attribute(
    a: str | None,
    b: str | None,
    likeness: Likeness | None = None,
    threshold: float = LIKENESS_THRESHOLD,
) -> bool:
    """Whether two names mean the same: `home` and `lives in`, not `work phone` and `phone`.

    Args:
        likeness: cosine of two names by the caller's embedder, asked about names that the table
            does not know and that share no word (those differ in scope: `red wine`, `white wine`).
        threshold: from which likeness on they are the same.
    """
    if not a or not b:
        return False
    one, other = attribute(a), attribute(b)
    if one == other:
        return bool(one.family or one.scope)
    if likeness is None or (one.family and other.family) or _shares_a_word(a, b):
        return False
    return likeness(a, b) >= threshold


def attribute(name: str) -> Attribute:
    """Read an attribute's name: the longest ending that the table knows, and the rest as scope."""
    written = _phrase(name)
    if written in _families():
        return Attribute(_families()[written], frozenset())
    words = _meaningful(_scope_first(name))
    if "favourite" in words:  # a favourite city is no home
        return Attribute(None, frozenset(words))
    for start in range(len(words)):
        family = _families().get(" ".join(words[start:]))
        if family:
            return Attribute(family, frozenset(words[:start]))
    return Attribute(None, frozenset(words))


def cardinality(name: str) -> Cardinality:
    """Whether a subject has one value of it, or several at a time; sisters have several names."""
    known = attribute(name)
    if known.scope & {_singular(one) for one in listed("people")}:
        return "unknown"
    if "favourite" in known.scope:
        return "several" if _is_plural(name) else "one"
    named = (found for found, part in _SECTIONS.items() if known.family in table()[part])
    return next(named, "unknown")


def _is_plural(name: str) -> bool:
    return any(_singular(token) != token for token in tokens(name))


def aliases(family: str) -> list[list[str]]:
    """The words of each name of a family, longest first."""
    names = [phrase.split() for phrase, known in _families().items() if known == family]
    return sorted(names, key=len, reverse=True)


def _shares_a_word(a: str, b: str) -> bool:
    return bool({*_meaningful(a)} & {*_meaningful(b)})


def _scope_first(name: str) -> str:
    """`account (YouTube)` and `name of the dog` with their scope in front."""
    found = _LATER_SCOPE.match(_spaced(name))
    return f"{found[2] or found[3] or ''} {found[1]}" if found else _spaced(name)


def _meaningful(name: str) -> list[str]:
    words = [word for word in _phrase(name).split() if word not in listed("fillers")]
    return ["favourite" if word in _FAVOURITE else word for word in words]


def _phrase(name: str) -> str:
    return " ".join(_singular(token) for token in tokens(_spaced(name)))


def _spaced(name: str) -> str:
    return plain(re.sub(r"[_\-]+", " ", _CAMEL.sub(" ", name)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


@cache
def _families() -> dict[str, str]:
    """Each known name with its family; a name without its small words is known as well."""
    found: dict[str, str] = {}
    for section in _SECTIONS.values():
        for family, names in table()[section].items():
            for name in names:
                found[_phrase(name)] = family
                found.setdefault(" ".join(_meaningful(_scope_first(name))), family)
    found.pop("", None)
    return found


def own_words(name: str) -> frozenset[str]:
    """Stems of all words by which an attribute is called, which are no part of its value."""
    family = attribute(name).family
    called = [word for names in aliases(family) for word in names] if family else []
    return frozenset(stem(word) for word in [*called, *tokens(_spaced(name))])
