"""Whether a new record supersedes an older one of the same subject and attribute, by their words.

`judge` reads both records and the messages of the newer one. The checks in `_AGAINST` look for a
reason to keep both; only when none applies does `_decided` look for a sign of a change.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from langmem_graph.extraction import statement_mood
from langmem_graph.extraction.statement_mood import Source, source_of
from langmem_graph.messages import to_utc
from langmem_graph.schemas import Record
from langmem_graph.values import attributes
from langmem_graph.values.attributes import (
    USER_WORDS,
    Cardinality,
    aliases,
    attribute,
    cardinality,
    is_user,
    own_words,
    same_attribute,
    same_subject,
)

Outcome = Literal["overwrite", "refine", "keep_both"]
_PRONOUNS = frozenset("he she it they er sie es il elle el ella".split())
_CAREFUL: tuple[Cardinality, ...] = ("several", "unknown", "usually one", "one")
_PART = re.compile(r"\b(?:(?:[Ff]or|[Aa]bout|[Rr]egarding) (?!the user\b)\w+|to [A-Z]\w+)")
_AS, _AT = re.compile(r"\b(?:as|is an?)\b"), re.compile(r"\b(?:at|for|in|bei|chez|en)\b")


class Verdict(NamedTuple):
    """What becomes of the older record, and why, in words for its history."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True)
class Case:
    """Two records of one subject and attribute, and what their words say."""

    old: Record
    new: Record
    source: Source
    old_value: frozenset[str]
    new_value: frozenset[str]
    many: Cardinality
    dated: bool
    of_user: bool
    named: frozenset[str]
    """The words by which the subject may be called."""

    @property
    def ended(self) -> bool:
        """The new record says that something is over, and the old one does not."""
        return attributes.finds("ends", self.new.text) and not attributes.finds(
            "ends", self.old.text
        )

    @property
    def denied(self) -> bool:
        """One record says what the other denies, in the same words."""
        one, other = (attributes.finds("negates", record.text) for record in (self.old, self.new))
        return one != other and self.old_value == self.new_value

    @property
    def names_old(self) -> bool:
        """The message says what is no longer so."""
        named = frozenset().union(*map(attributes.content, self.source.cues))
        return bool(self.old_value) and self.old_value <= named | self.new_value

    @property
    def changes(self) -> bool:
        """The message gives a cue that something has changed."""
        return any(map(self.source.gives, ("ends", "replaces", "corrects", "shifts")))


def case_of(old: Record, new: Record, said: str, user_names: Collection[str]) -> Case:
    """Read two records and the words of the newer one's messages."""
    names = old.attribute or "", new.attribute or ""
    of_user = is_user(new.subject, user_names)
    called = [old.subject or "", new.subject or "", *user_names]
    named = frozenset(token for one in called for token in attributes.tokens(one))
    known = own_words(names[0]) | own_words(names[1]) | frozenset(map(attributes.stem, named))
    values = attributes.content(old.text) - known, attributes.content(new.text) - known
    return Case(
        old=old,
        new=new,
        source=source_of(said, values[1] or attributes.content(new.text), values[0]),
        old_value=values[0],
        new_value=values[1],
        many=_cardinality(names, of_user=of_user),
        dated=attribute(names[0]).family in attributes.table()["dated"],
        of_user=of_user,
        named=named | USER_WORDS | _PRONOUNS if of_user else named | _PRONOUNS,
    )


def _cardinality(names: tuple[str, str], *, of_user: bool) -> Cardinality:
    """The more careful of the two; a user has many dates and prices, an invoice has one."""
    found = {cardinality(name) for name in names}
    for family, scope in map(attribute, names):
        if of_user and not scope and family in attributes.table()["of things"]:
            found.add("unknown")
    return next(one for one in _CAREFUL if one in found)


def objection(case: Case) -> Verdict | None:
    """The first reason against it; None when there is none."""
    found = (check(case) for check in _AGAINST)
    return next((verdict for verdict in found if verdict), None)


def _other_kind(case: Case) -> Verdict | None:
    kinds = case.old.kind, case.new.kind
    if kinds[0] != kinds[1] and "instruction" in kinds:
        return Verdict("keep_both", "Only an instruction replaces an instruction.")
    if set(kinds) == {"event", "preference"}:
        return Verdict("keep_both", "What happened once does not change a preference.")
    if case.old.confirmation == "confirmed" and case.new.confirmation != "confirmed":
        return Verdict("keep_both", "What is not confirmed does not replace what is.")
    if case.old.project and case.new.project and case.old.project != case.new.project:
        return Verdict("keep_both", "They belong to different projects.")
    return None


def _earlier(case: Case) -> Verdict | None:
    if to_utc(case.new.valid_from) < to_utc(case.old.valid_from):
        return Verdict("keep_both", "The new record was true before the older one.")
    return None


def _other_scope(case: Case) -> Verdict | None:
    """`work phone` in one text and `home phone` in the other, with the attribute `phone` alone."""
    texts = case.old.text, case.new.text
    one, other = (_narrowed(text, case) for text in texts)
    if one - {*attributes.tokens(texts[1])} or other - {*attributes.tokens(texts[0])}:
        return Verdict("keep_both", "They are about different things of the same sort.")
    family = attribute(case.new.attribute or "").family
    roles = [bool(_AS.search(text)) and not _AT.search(text) for text in texts]
    if family == "job" and roles[0] != roles[1]:
        return Verdict("refine", "One says where somebody works, the other as what.")
    return None


def _narrowed(text: str, case: Case) -> set[str]:
    """The word before the attribute's name in a text, if it is not the subject's."""
    family, scope = attribute(case.new.attribute or "")
    said = attributes.tokens(text)
    skipped = attributes.listed("fillers") | attributes.listed("common")
    skipped |= {
        *attributes.tokens(case.old.subject or ""),
        *attributes.tokens(case.new.subject or ""),
    }
    for name in aliases(family) if family else [[word] for word in sorted(scope)]:
        for at in range(1, len(said)):
            if said[at : at + len(name)] == name:
                return {said[at - 1]} - skipped
    return set()


def _of_another(case: Case) -> Verdict | None:
    known = [*attributes.tokens(case.old.text), *attributes.tokens(case.old.subject or "")]
    known += attributes.tokens(f"{case.old.attribute} {case.new.attribute}")
    another = statement_mood.is_of_another(case.source, case.new.text, known, user=case.of_user)
    if another or _leaves_subject(case):
        return Verdict("keep_both", "The new statement is about somebody else.")
    return None


def _not_said_so(case: Case) -> Verdict | None:
    """What the source words show to be no statement about the subject as it is now."""
    source, text = case.source, case.new.text
    reasons = {
        "The new statement is quoted or comes from somebody else.": statement_mood.is_quoted(
            source, case.new_value
        ),
        "It was a question.": statement_mood.is_question(source),
        "It was only supposed, wished for or conditional.": (
            statement_mood.is_supposed(source) or attributes.finds("supposes", text)
        ),
        "The message denies what the new record states.": statement_mood.is_denied(source, text),
        "The new statement is about the past.": statement_mood.is_past(source, text),
    }
    return next((Verdict("keep_both", why) for why, holds in reasons.items() if holds), None)


def _leaves_subject(case: Case) -> bool:
    """The old text names its subject, the new one does not: `Tom is 28` is not about Anna."""
    texts = attributes.tokens(case.old.text), attributes.tokens(case.new.text)
    if case.new.kind == "instruction":
        return False
    return bool(case.named & {*texts[0]}) and not case.named & {*texts[1]}


def _not_for_good(case: Case) -> Verdict | None:
    """What holds once, later, or only for a part."""
    if case.dated or case.old.kind == "event":
        return None
    once = ("once", "today") if case.old.kind in ("preference", "instruction") else ("once",)
    if any(case.source.uses(one) or attributes.finds(one, case.new.text) for one in once):
        return Verdict("refine", "The new statement holds for one occasion only.")
    if case.source.uses("ahead"):
        return Verdict("keep_both", "The new statement is not true yet.")
    if _is_partial(case.old, case.new):
        return Verdict("refine", "The new statement holds only for a part.")
    return None


def _is_partial(old: Record, new: Record) -> bool:
    """What is wanted on weekends, or in answers about code, is not what is wanted always."""
    wanted = new.kind in ("preference", "instruction")
    if wanted and {*_PART.findall(new.text)} - {*_PART.findall(old.text)}:
        return True
    return attributes.finds("part", new.text) and not attributes.finds("part", old.text)


def _same_or_finer(case: Case) -> Verdict | None:
    if case.denied or case.ended:
        return None
    if case.new_value <= case.old_value:
        return Verdict("keep_both", "The new record says nothing that the older one does not say.")
    if case.old_value <= case.new_value or _is_narrower(case.old_value, case.new_value):
        return Verdict("refine", "The new record says the same more precisely.")
    return None


def _is_narrower(old: frozenset[str], new: frozenset[str]) -> bool:
    """Sushi is Asian food, and Munich may well be in Germany."""
    for broad, narrow in attributes.table()["narrower"].items():
        finer = {attributes.stem(token) for name in narrow for token in attributes.tokens(name)}
        if attributes.stem(broad) in old and new & finer:
            return True
    places = attributes.stems("countries")
    return bool(old) and old <= places and not new & places


def _added(case: Case) -> Verdict | None:
    more = case.source.uses("more of them")
    if more or (case.source.uses("adds") and not (case.many == "one" and case.changes)):
        return Verdict("refine", "The new record adds to the older one.")
    return None


_AGAINST: tuple[Callable[[Case], Verdict | None], ...] = (
    _other_kind,
    _earlier,
    _other_scope,
    _of_another,
    _not_said_so,
    _not_for_good,
    _same_or_finer,
    _added,
)


def judge(
    old: Record,
    new: Record,
    said: str,
    *,
    user_names: Collection[str] = (),
) -> Verdict:
    """Decide whether the new record supersedes the old one.

    Args:
        old: the older record.
        new: the newer one, that a model takes for a change of the older.
        said: the words of the messages that the new record was made of.
        user_names: what the user is called in records; see `same_subject`.

    Returns:
        `overwrite`, or `refine` when both are true of the same thing, or `keep_both`.
    """
    if not same_subject(old.subject, new.subject, user_names):
        return Verdict("keep_both", "The two records are not known to be about the same subject.")
    if not same_attribute(old.attribute, new.attribute):
        return Verdict("keep_both", "They say different things about their subject.")
    case = case_of(old, new, said, user_names)
    return objection(case) or _decided(case)


def _decided(case: Case) -> Verdict:
    """What speaks for a change, when nothing speaks against it."""
    if case.ended or case.denied:
        return _ending(case)
    events = case.old.kind == case.new.kind == "event"
    if case.many == "one" and (not events or case.changes):
        return Verdict("overwrite", "There is one value at a time, and the new record gives it.")
    if case.many == "usually one" and case.changes:
        return Verdict("overwrite", "The message says that it has changed.")
    replaced = case.source.gives("ends") or case.source.gives("replaces")
    if case.names_old and (replaced or (case.many != "several" and case.changes)):
        return Verdict("overwrite", "The message says that the new replaces the old.")
    corrected = case.source.gives("corrects")
    if case.many == "unknown" and (replaced or corrected):
        return Verdict("overwrite", "The message corrects what was said before.")
    return Verdict("refine", "Nothing says that the older record is no longer true.")


def _ending(case: Case) -> Verdict:
    """Something is over: it must be what the old record says, and all of it."""
    if not case.old_value <= case.new_value:
        return Verdict("keep_both", "What has ended is something else.")
    more = case.new_value - case.old_value - attributes.stems("times")
    if more and case.many != "one":
        return Verdict("refine", "Only a part of what the older record says has ended.")
    return Verdict("overwrite", "What the older record says is no longer so.")
