"""The check of a topic round, which is committed as a whole or not at all (NapMem 5.2).

A round is all topic tracks and the profile as they would be after it. A superseded record in the
evidence is replaced by its successor. Everything else that is wrong is a problem, and the caller
drops a round with a problem.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from langmem_graph.errors import InvalidInputError
from langmem_graph.topics.track_and_profile_files import (
    MAX_TOPICS,
    ProfileFile,
    TopicFile,
    file_name,
    linked_topics,
)


class CheckedRound(NamedTuple):
    """The files with their evidence brought up to date, and why they cannot be committed."""

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
        active: ids of the records that hold now.
        superseded_by: for each superseded record its successor.
    """
    files: list[TopicFile | ProfileFile] = []
    problems = _round_problems(topics)
    for topic in topics:
        repaired, topic_problems = _repaired(topic, active, superseded_by)
        files.append(repaired)
        problems += topic_problems
    if profile is not None:
        files.append(profile)
        problems += _profile_problems(profile, {topic.name for topic in topics})
    return CheckedRound(files, problems)


def _round_problems(topics: Sequence[TopicFile]) -> list[str]:
    counts = Counter(topic.name for topic in topics)
    problems = [
        f"{name}: {count} topics have this name" for name, count in counts.items() if count > 1
    ]
    if len(topics) > MAX_TOPICS:
        problems.append(f"{len(topics)} topics, at most {MAX_TOPICS}: merge related ones")
    return problems


def _repaired(
    topic: TopicFile, active: Set[str], superseded_by: Mapping[str, str]
) -> tuple[TopicFile, list[str]]:
    """The topic with successors in place of superseded records, and its problems."""
    if problem := _format_problem(topic):
        return topic, [problem]
    successors = {record: _successor(record, active, superseded_by) for record in topic.evidence}
    problems = [
        f"{file_name(topic)}: evidence {record!r} is no record that is active or was superseded by"
        " one"
        for record, successor in successors.items()
        if successor is None
    ]
    if not successors:
        problems.append(f"{file_name(topic)}: no evidence; every topic rests on records")
    kept = list(dict.fromkeys(successor or record for record, successor in successors.items()))
    return topic.model_copy(update={"evidence": kept}), problems


def _successor(record_id: str, active: Set[str], superseded_by: Mapping[str, str]) -> str | None:
    """The record itself, if active, or its active successor; None where there is none."""
    seen = set()
    while record_id not in active:
        seen.add(record_id)
        following = superseded_by.get(record_id)
        if following is None or following in seen:
            return None
        record_id = following
    return record_id


def _profile_problems(profile: ProfileFile, names: Set[str]) -> list[str]:
    if problem := _format_problem(profile):
        return [problem]
    named = dict.fromkeys([*profile.topics, *linked_topics(profile.text)])
    problems = [f"profile.md: topic {name!r} does not exist" for name in named if name not in names]
    if profile.text and not named:
        problems.append("profile.md: names no topics; what it says must rest on some")
    return problems


def _format_problem(file: TopicFile | ProfileFile) -> str | None:
    """What is wrong with a file that was changed without its checks, as by `model_copy`."""
    try:
        type(file)(**dict(file))
    except InvalidInputError as error:
        return str(error)
    return None
