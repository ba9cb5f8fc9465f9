"""Words, subjects and attributes of records, compared by the word lists in `everyday.json`."""

import json
import re
import unicodedata
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

_TOKEN = re.compile(r"[^\W_]+(?:[.:@+/-]+[^\W_]+)*")
_POSSESSIVE = re.compile(r"'s\b|'(?=\s|$)")
_ENDINGS = ("ing", "ed", "es", "e", "s")
Cardinality = Literal["one", "usually one", "several", "unknown"]
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


@cache
def table() -> dict[str, Any]:
    """The whole table."""
    text = files("langmem_graph.values").joinpath("everyday.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def listed(section: str) -> frozenset[str]:
    """A list of the table, in plain letters."""
    return frozenset(plain(phrase) for phrase in table()[section])


@cache
def stems(section: str) -> frozenset[str]:
    """The stems of all words in a list of the table."""
    return frozenset(stem(token) for phrase in listed(section) for token in tokens(phrase))


def plain(text: str) -> str:
    """Without case, accents, curly apostrophes and double spaces."""
    folded = unicodedata.normalize("NFKD", text.replace("\u2019", "'").casefold())
    bare = "".join(char for char in folded if not "\u0300" <= char <= "\u036f")
    return " ".join(unicodedata.normalize("NFC", bare).split())


def tokens(text: str) -> list[str]:
    """Words, numbers, times and addresses, each in one piece and without a possessive ending."""
    return _TOKEN.findall(_POSSESSIVE.sub(" ", plain(text)))


def stem(token: str) -> str:
    """A word without its commonest endings; the same for `lives`, `lived` and `living`."""
    for ending in _ENDINGS:
        if token.endswith(ending) and len(token) - len(ending) >= 3:
            return token[: -len(ending)]
    return token


def content(text: str) -> frozenset[str]:
    """The stems of the words that carry meaning."""
    return frozenset(stem(token) for token in tokens(text)) - stems("common")


def finds(section: str, text: str) -> bool:
    """Whether a text, in whatever case, uses a phrase of the list."""
    return bool(_pattern(section).search(plain(text)))


def without(section: str, text: str) -> str:
    """The text, plain, without the phrases of the list."""
    return _pattern(section).sub(" ", plain(text))


@cache
def _pattern(section: str) -> re.Pattern[str]:
    return re.compile("|".join(map(_as_regex, sorted(listed(section), key=len, reverse=True))))


def _as_regex(phrase: str) -> str:
    """`...` stands for up to four words; `n't` and `'m` may follow a word directly."""
    open_start = phrase.startswith(("n't", "'"))
    words = re.escape(phrase).replace(r"\ \.\.\.\ ", r"(?:\s\S+){0,4}?\s")
    words = words.replace(r"\.\.\.\ ", r"\S+(?:\s\S+){0,4}?\s")
    words += r"(?=\s*(?:[,.;!?]|$))" if phrase == "too" else ""  # not `too sweet`
    return ("" if open_start else r"(?<!\w)") + words + r"(?!\w)"


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


def same_attribute(a: str | None, b: str | None) -> bool:
    """Whether two names mean the same: `home` and `lives in`, not `work phone` and `phone`."""
    if not a or not b:
        return False
    one, other = attribute(a), attribute(b)
    return one == other and bool(one.family or one.scope)


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
