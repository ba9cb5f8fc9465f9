"""Entities: when two names mean the same, and when a name cannot be of a type."""

import re
import unicodedata

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
