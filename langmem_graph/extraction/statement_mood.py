"""What the words of a message tell about a record that was extracted from it.

A record extracted from `I used to live in Rome` or from `my sister moved to Rome` does not state
where the user lives now, whatever the model made of it. Only the sentences that the record was made
of are examined.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from langmem_graph.values import attributes

_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
_CLAUSE = re.compile(r"[,;:–—]\s|\s(?:but|and|so|aber|und|mais|pero)\s")
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]*)[\"“”„«»]")
_REPORTS = re.compile(
    r"\b(\w+) (?:just |always |also )?(?:says?|said|thinks?|thought|believes?|claims?|reckons?"
    r"|guess(?:es)?|told (?:me|us)|wrote|asked|asks|suggest(?:s|ed)|recommends?|wants me"
    r"|sagt|meint|dit|pense|dice|cree)\b"
)
_CLOSING = " \t\"'”’»)]}!.…*_~"
_SELF = frozenset("you i we ich wir je on yo have ve just already as and also always".split())
_FIRST_PERSON = re.compile(r"\b(?:i|we|me|us|mine|ich|wir|mir|mich|je|j|nous|moi|yo|nosotros|me)\b")
_THIRD_PERSON = re.compile(r"^(?:(?:and|but|so|well|und|et|y) )?(?:he|she|er|sie|il|elle|ella)\b")
_SHORT = 4  # words of a sentence such as `Not any more.`


@dataclass(frozen=True)
class Source:
    """The part of a message that a statement was made of.

    Attributes:
        sentences: those that share most words with the statement; all when none does.
        clauses: the clauses of these that share most words with it.
        cues: the sentences, those that name the old value, and short ones such as `Not any more.`
    """

    sentences: tuple[str, ...]
    clauses: tuple[str, ...]
    cues: tuple[str, ...]

    def uses(self, section: str) -> bool:
        """Whether its sentences use a phrase of the table."""
        return any(attributes.finds(section, sentence) for sentence in self.sentences)

    def gives(self, section: str) -> bool:
        """Whether it gives a cue of the table."""
        return any(attributes.finds(section, sentence) for sentence in self.cues)


def source_of(said: str, new: frozenset[str], old: frozenset[str]) -> Source:
    """Find the part of a message that says the new value, given the stems of both values."""
    every = [part for part in dict.fromkeys(_SENTENCE.split(said)) if part.strip()]
    sentences = _most_alike(every, new)
    clauses = _most_alike([part for one in sentences for part in _CLAUSE.split(one)], new)
    cues = [
        one
        for one in every
        if one in sentences or len(one.split()) <= _SHORT or attributes.content(one) & old
    ]
    return Source(tuple(sentences), tuple(clauses), tuple(cues))


def _most_alike(parts: list[str], wanted: frozenset[str]) -> list[str]:
    shared = [len(attributes.content(part) & wanted) for part in parts]
    best = max(shared, default=0)
    return [part for part, count in zip(parts, shared, strict=True) if count == best]


def is_question(source: Source) -> bool:
    """Whether it asks, and does not ask for a change, as `could you change my number?` does."""
    return any(
        one.rstrip(_CLOSING).endswith(("?", "？")) and not attributes.finds("requests", one)
        for one in source.sentences
    )


def is_supposed(source: Source) -> bool:
    """Whether it is only considered, hoped for or conditional."""
    left = (attributes.without("not a supposition", one) for one in source.sentences)
    return any(attributes.finds("supposes", one) for one in left)


def is_denied(source: Source, text: str) -> bool:
    """Whether it says no to what the record states: `I'm not moving to Rome`."""
    if attributes.finds("negates", text) or attributes.finds("ends", text):
        return False
    return any(attributes.finds("negates", clause) for clause in source.clauses)


def is_past(source: Source, text: str) -> bool:
    """Whether it was so once; `I used to, but no longer` is news and not past."""
    ended = attributes.finds("ends", text)
    return not ended and any(attributes.finds("was", one) for one in (*source.clauses, text))


def is_quoted(source: Source, value: frozenset[str]) -> bool:
    """Whether somebody else said it, or it stands in a text, a story or a translation."""
    return source.uses("tells") or any(
        _is_reported(one) or _in_quotes(one, value) for one in source.sentences
    )


def _is_reported(sentence: str) -> bool:
    speakers = {found[1] for found in _REPORTS.finditer(attributes.plain(sentence))}
    return bool(speakers - _SELF - attributes.listed("things that say"))


def _in_quotes(sentence: str, value: frozenset[str]) -> bool:
    """A quoted sentence, not a quoted name."""
    quoted = (found[1] for found in _QUOTED.finditer(sentence))
    return any(len(one.split()) >= 3 and attributes.content(one) & value for one in quoted)


def is_of_another(source: Source, text: str, known: Iterable[str], *, user: bool) -> bool:
    """Whether it is about a person or animal of whom the old record does not speak.

    Args:
        source: the words of the message.
        text: the new record's text.
        known: words of the old record and of the attribute.
        user: whether both records are about the user.
    """
    others = attributes.listed("people") - frozenset(known)
    if _owned(text) & others:
        return True
    return user and any(_speaks_of(clause, others) for clause in source.clauses)


def _owned(text: str) -> frozenset[str]:
    """The sister in `Anna's sister has moved`."""
    found = re.match(r"(?:(?:the|my|our) )?[\w.-]+'s ((?:\w+ )?(\w+))", attributes.plain(text))
    return frozenset(found[1].split()) if found else frozenset()


def _speaks_of(clause: str, others: Collection[str]) -> bool:
    plain = attributes.plain(clause)
    if _FIRST_PERSON.search(plain):
        return False
    return bool(_THIRD_PERSON.search(plain)) or any(
        one in others for one in attributes.tokens(plain)
    )
