"""objections: why a record may not supersede another of the same subject and attribute."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from langmem_graph.models import Record
from langmem_graph.write import source_words, words
from langmem_graph.write.attributes import aliases, attribute
from langmem_graph.write.case import Case, Verdict

_PART = re.compile(r"\b(?:(?:[Ff]or|[Aa]bout|[Rr]egarding) (?!the user\b)\w+|to [A-Z]\w+)")
_AS, _AT = re.compile(r"\b(?:as|is an?)\b"), re.compile(r"\b(?:at|for|in|bei|chez|en)\b")


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
    if _utc(case.new.valid_from) < _utc(case.old.valid_from):
        return Verdict("keep_both", "The new record was true before the older one.")
    return None


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _other_scope(case: Case) -> Verdict | None:
    """`work phone` in one text and `home phone` in the other, with the attribute `phone` alone."""
    texts = case.old.text, case.new.text
    one, other = (_narrowed(text, case) for text in texts)
    if one - {*words.tokens(texts[1])} or other - {*words.tokens(texts[0])}:
        return Verdict("keep_both", "They are about different things of the same sort.")
    family = attribute(case.new.attribute or "").family
    roles = [bool(_AS.search(text)) and not _AT.search(text) for text in texts]
    if family == "job" and roles[0] != roles[1]:
        return Verdict("refine", "One says where somebody works, the other as what.")
    return None


def _narrowed(text: str, case: Case) -> set[str]:
    """The word before the attribute's name in a text, if it is not the subject's."""
    family, scope = attribute(case.new.attribute or "")
    said = words.tokens(text)
    skipped = words.listed("fillers") | words.listed("common")
    skipped |= {*words.tokens(case.old.subject or ""), *words.tokens(case.new.subject or "")}
    for name in aliases(family) if family else [[word] for word in sorted(scope)]:
        for at in range(1, len(said)):
            if said[at : at + len(name)] == name:
                return {said[at - 1]} - skipped
    return set()


def _of_another(case: Case) -> Verdict | None:
    known = [*words.tokens(case.old.text), *words.tokens(case.old.subject or "")]
    known += words.tokens(f"{case.old.attribute} {case.new.attribute}")
    another = source_words.is_of_another(case.source, case.new.text, known, user=case.of_user)
    if another or _leaves_subject(case):
        return Verdict("keep_both", "The new statement is about somebody else.")
    return None


def _not_said_so(case: Case) -> Verdict | None:
    """What the source words show to be no statement about the subject as it is now."""
    source, text = case.source, case.new.text
    reasons = {
        "The new statement is quoted or comes from somebody else.": source_words.is_quoted(
            source, case.new_value
        ),
        "It was a question.": source_words.is_question(source),
        "It was only supposed, wished for or conditional.": (
            source_words.is_supposed(source) or words.finds("supposes", text)
        ),
        "The message denies what the new record states.": source_words.is_denied(source, text),
        "The new statement is about the past.": source_words.is_past(source, text),
    }
    return next((Verdict("keep_both", why) for why, holds in reasons.items() if holds), None)


def _leaves_subject(case: Case) -> bool:
    """The old text names its subject, the new one does not: `Tom is 28` is not about Anna."""
    texts = words.tokens(case.old.text), words.tokens(case.new.text)
    if case.new.kind == "instruction":
        return False
    return bool(case.named & {*texts[0]}) and not case.named & {*texts[1]}


def _not_for_good(case: Case) -> Verdict | None:
    """What holds once, later, or only for a part."""
    if case.dated or case.old.kind == "event":
        return None
    once = ("once", "today") if case.old.kind in ("preference", "instruction") else ("once",)
    if any(case.source.uses(one) or words.finds(one, case.new.text) for one in once):
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
    return words.finds("part", new.text) and not words.finds("part", old.text)


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
    for broad, narrow in words.table()["narrower"].items():
        finer = {words.stem(token) for name in narrow for token in words.tokens(name)}
        if words.stem(broad) in old and new & finer:
            return True
    places = words.stems("countries")
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
