"""validate_round: what a topic writer made is committed whole, or not at all.

A round is all topics and the profile as they would be after it. Where a record that a topic rests
on was superseded, its successor takes its place. Whatever else is wrong is a problem, and a round
with a problem is rolled back by whoever ran it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from langmem_graph.errors import InvalidInputError
from langmem_graph.topics.files import MAX_TOPICS, ProfileFile, TopicFile, file_name, linked_topics


class CheckedRound(NamedTuple):
    """The files with their evidence brought up to date, and what forbids to commit them."""

    files: list[TopicFile | ProfileFile]
    problems: list[str]


def validate_round(
    topics: Sequence[TopicFile],
    profile: ProfileFile | None,
    active: Set[str],
    superseded_by: Mapping[str, str],
) -> CheckedRound:
    """Check a round as a whole, and repair what code can repair.

    Args:
        topics: all topics after the round, changed or not.
        profile: the profile after the round.
        active: ids of the records that are true now.
        superseded_by: for each superseded record the one that took its place.
    """
    files: list[TopicFile | ProfileFile] = []
    problems = _of_all(topics)
    for topic in topics:
        repaired, found = _checked_topic(topic, active, superseded_by)
        files.append(repaired)
        problems += found
    if profile is not None:
        files.append(profile)
        problems += _of_profile(profile, {topic.name for topic in topics})
    return CheckedRound(files, problems)


def _of_all(topics: Sequence[TopicFile]) -> list[str]:
    counts = Counter(topic.name for topic in topics)
    problems = [
        f"{name}: {count} topics have this name" for name, count in counts.items() if count > 1
    ]
    if len(topics) > MAX_TOPICS:
        problems.append(f"{len(topics)} topics, at most {MAX_TOPICS}: merge related ones")
    return problems


def _checked_topic(
    topic: TopicFile, active: Set[str], superseded_by: Mapping[str, str]
) -> tuple[TopicFile, list[str]]:
    """The topic with successors for superseded records, and its problems."""
    if problem := _format_problem(topic):
        return topic, [problem]
    now = {one: _successor(one, active, superseded_by) for one in topic.evidence}
    problems = [
        f"{file_name(topic)}: evidence {one!r} is no record that is active or was superseded by one"
        for one, successor in now.items()
        if successor is None
    ]
    if not now:
        problems.append(f"{file_name(topic)}: no evidence; every topic rests on records")
    kept = list(dict.fromkeys(now[one] or one for one in topic.evidence))
    return topic.model_copy(update={"evidence": kept}), problems


def _successor(record_id: str, active: Set[str], superseded_by: Mapping[str, str]) -> str | None:
    """The record itself or the active one that follows it; None where the chain ends or circles."""
    seen = set()
    while record_id not in active:
        seen.add(record_id)
        following = superseded_by.get(record_id)
        if following is None or following in seen:
            return None
        record_id = following
    return record_id


def _of_profile(profile: ProfileFile, names: Set[str]) -> list[str]:
    if problem := _format_problem(profile):
        return [problem]
    named = dict.fromkeys([*profile.topics, *linked_topics(profile.text)])
    problems = [f"profile.md: topic {name!r} does not exist" for name in named if name not in names]
    if profile.text and not named:
        problems.append("profile.md: names no topics; what it says must rest on some")
    return problems


def _format_problem(file: TopicFile | ProfileFile) -> str | None:
    """What is wrong with a file that was made without its checks, or None."""
    try:
        type(file)(**dict(file))
    except InvalidInputError as error:
        return str(error)
    return None
