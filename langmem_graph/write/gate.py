"""gate: whether a new record may supersede an older one, as a model proposed.

The model proposes, this decides. A wrong yes hides a true record, a wrong no leaves two records
to be read side by side: in doubt both stay.
"""

from collections.abc import Collection

from langmem_graph.models import Record
from langmem_graph.write import words
from langmem_graph.write.attributes import (
    LIKENESS_THRESHOLD,
    Likeness,
    same_attribute,
    same_subject,
)
from langmem_graph.write.case import Case, Outcome, Verdict, case_of
from langmem_graph.write.objections import objection

__all__ = ["Outcome", "Verdict", "judge"]


def judge(
    old: Record,
    new: Record,
    said: str,
    *,
    user_names: Collection[str] = (),
    likeness: Likeness | None = None,
    threshold: float = LIKENESS_THRESHOLD,
) -> Verdict:
    """Decide whether the new record supersedes the old one.

    Args:
        old: the older record.
        new: the newer one, that a model takes for a change of the older.
        said: the words of the messages that the new record was made of.
        user_names: what the user is called in records; see `same_subject`.
        likeness: compares attribute names that the table does not know; see `same_attribute`.
        threshold: from which likeness on they are the same.

    Returns:
        `overwrite`, or `refine` when both are true of the same thing, or `keep_both`.
    """
    if not same_subject(old.subject, new.subject, user_names):
        return Verdict("keep_both", "The two records are not known to be about the same subject.")
    if not same_attribute(old.attribute, new.attribute, likeness, threshold):
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
    more = case.new_value - case.old_value - words.stems("times")
    if more and case.many != "one":
        return Verdict("refine", "Only a part of what the older record says has ended.")
    return Verdict("overwrite", "What the older record says is no longer so.")
