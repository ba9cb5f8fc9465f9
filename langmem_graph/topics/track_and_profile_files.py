"""Topic tracks and the profile as Markdown files, rendered and parsed without loss
(NapMem 5.1).

A file is YAML front matter and a body; the body of a topic track has one section for
each of `SECTIONS`. Everything in a file is checked when it is parsed: no file is
trusted.
"""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
)

from langmem_graph.errors import InvalidInputError, explain, quoted
from langmem_graph.ids_and_times import to_utc

PROFILE = "profile.md"
INDEX = "index.md"
SECTIONS = ("Summary", "Narrative", "Evidence")
MAX_TOPICS = 20
MAX_PROFILE_CHARS = 2_000
_FENCE = "---\n"
_NAMES = "|".join(SECTIONS)
_HEADING = re.compile(rf"^\\*## (?:{_NAMES})[ \t]*$", re.MULTILINE)
_SLUG = "[a-z0-9]+(?:-[a-z0-9]+)*"
_SLUG_CHARS = 64
_FILE_NAME = re.compile(rf"profile\.md|index\.md|topics/(?P<slug>{_SLUG})\.md")


def _clean(value: object) -> object:
    """The text without white space around it; control characters, which hide text, are
    refused.
    """
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").strip()
    for sign in text:
        if unicodedata.category(sign) == "Cc" and sign not in "\n\t":
            raise InvalidInputError(f"holds the control character {sign!r}; remove it")
    return text


def _one_line(text: str) -> str:
    if "\n" in text:
        raise InvalidInputError("must be one line")
    return text


def _time(value: object) -> datetime:
    if not isinstance(value, str | date):
        raise InvalidInputError(
            f"must be a time such as 2025-05-03T10:00:00Z, not {quoted(value)}"
        )
    return to_utc(value)


_Clean = BeforeValidator(_clean)
_Name = Annotated[str, StringConstraints(pattern=f"^{_SLUG}$", max_length=_SLUG_CHARS)]
_RecordId = Annotated[str, StringConstraints(pattern="^[!-~]+$", max_length=100)]


class _File(BaseModel, frozen=True, extra="forbid"):
    """What both kinds of files have; InvalidInputError names every field that cannot be
    used.
    """

    version: Annotated[int, Field(strict=True, ge=1)] = 1
    updated_at: Annotated[datetime, BeforeValidator(_time)]

    def __init__(self, /, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            kind = "profile" if isinstance(self, ProfileFile) else "topic track"
            raise InvalidInputError(f"Not a {kind}: {explain(error)}.") from error


class TopicFile(_File):
    """One topic track: how one subject of the user's life developed, and from which
    records.
    """

    name: _Name  # lower-case words with hyphens; the file is `topics/<name>.md`
    title: Annotated[
        str,
        StringConstraints(min_length=1, max_length=200),
        _Clean,
        AfterValidator(_one_line),
    ]
    summary: Annotated[str, StringConstraints(min_length=1, max_length=1_000), _Clean]
    narrative: Annotated[
        str, StringConstraints(min_length=1, max_length=20_000), _Clean
    ]
    # ids of the records it rests on
    evidence: Annotated[list[_RecordId], Field(max_length=1_000)]


class ProfileFile(_File):
    """The profile: who the user is, in at most 2,000 characters, and the topics it
    rests on.
    """

    text: Annotated[str, StringConstraints(max_length=MAX_PROFILE_CHARS), _Clean]
    topics: Annotated[list[_Name], Field(max_length=MAX_TOPICS)]


def slug(title: str) -> str:
    """A topic's name from its title; titles without Latin letters are named by their
    hash.
    """
    plain = (
        unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    )
    words = re.sub("[^a-z0-9]+", "-", plain)[:_SLUG_CHARS].strip("-")
    digest = hashlib.sha256(title.encode("utf-8", "replace")).hexdigest()
    return words or f"topic-{digest[:8]}"


def file_name(file: TopicFile | ProfileFile) -> str:
    """The name that the file is stored under."""
    return PROFILE if isinstance(file, ProfileFile) else f"topics/{file.name}.md"


def is_file_name(name: object) -> bool:
    """True for the names of the profile, the index and topic tracks; no other path is
    one.
    """
    match = _FILE_NAME.fullmatch(name) if isinstance(name, str) else None
    return match is not None and len(match["slug"] or "") <= _SLUG_CHARS


def profile_problems(profile: ProfileFile, names: Collection[str]) -> list[str]:
    """What is wrong with the topics that a profile lists or links; `names` are those of
    all.
    """
    linked = re.findall(rf"\btopics/({_SLUG})\.md\b", profile.text)
    named = dict.fromkeys([*profile.topics, *linked])
    problems = [
        f"profile.md: topic {name!r} does not exist"
        for name in named
        if name not in names
    ]
    if profile.text and names and not named:
        problems.append("profile.md: names no topics; what it says must rest on some")
    return problems


def render_index(
    topics: Sequence[TopicFile], profile: ProfileFile | None = None
) -> str:
    """`index.md`: the files and what each is about, the most recently changed first."""
    lines = ["# Index", ""]
    if profile is not None:
        lines += [f"- [{PROFILE}]({PROFILE}): {len(profile.text):,} characters", ""]
    for topic in sorted(
        topics, key=lambda topic: (-topic.updated_at.timestamp(), topic.name)
    ):
        day = topic.updated_at.date().isoformat()
        summary = " ".join(topic.summary.split())
        records = len(topic.evidence)
        lines.append(
            f"- [{topic.title}]({file_name(topic)}): {summary} ({records} records, "
            f"{day})"
        )
    return "\n".join(lines).rstrip() + "\n"


def render(file: TopicFile | ProfileFile) -> str:
    """The file as Markdown; `parse` gives back the same file."""
    front: dict[str, Any] = {
        "version": file.version,
        "updated_at": file.updated_at.isoformat(),
    }
    if isinstance(file, ProfileFile):
        return _with_front_matter(
            {"kind": "profile", "topics": file.topics, **front}, file.text
        )
    evidence = "\n".join(f"- {record_id}" for record_id in file.evidence)
    sections = zip(SECTIONS, (file.summary, file.narrative, evidence), strict=True)
    # a line of a text that looks like a heading is escaped
    escaped = ((name, _HEADING.sub(r"\\\g<0>", text)) for name, text in sections)
    front = {"kind": "topic", "name": file.name, "title": file.title, **front}
    return _with_front_matter(
        front, "\n\n".join(f"## {n}\n\n{text}" for n, text in escaped)
    )


def _with_front_matter(front: Mapping[str, Any], body: str) -> str:
    fields = yaml.safe_dump(
        dict(front), allow_unicode=True, sort_keys=False, width=10**6
    )
    return f"{_FENCE}{fields}{_FENCE}\n{body}\n"


def parse(text: str) -> TopicFile | ProfileFile:
    """The file from its Markdown; InvalidInputError says why it is none."""
    front, body = _split(text)
    kind = front.pop("kind", None)
    if kind == "profile":
        return ProfileFile(**front | {"text": body})
    if kind != "topic":
        raise InvalidInputError(
            f"kind must be 'topic' or 'profile', not {quoted(kind)}."
        )
    summary, narrative, evidence = _parse_sections(body)
    fields = {
        "summary": summary,
        "narrative": narrative,
        "evidence": _parse_list(evidence),
    }
    return TopicFile(**front | fields)


def _split(text: str) -> tuple[dict[str, Any], str]:
    """The front matter's fields and the body."""
    start, fence, rest = text.partition(_FENCE)
    fields, end, body = rest.partition(f"\n{_FENCE}")
    if start or not fence or not end:
        raise InvalidInputError(
            "The front matter is missing: begin with fields between two '---'."
        )
    try:
        front = yaml.safe_load(fields)
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        RecursionError,
        AttributeError,
    ) as error:
        cause = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"The front matter is not YAML: {cause}.") from error
    if not isinstance(front, dict) or not all(isinstance(name, str) for name in front):
        raise InvalidInputError(
            "The front matter must be fields, one `name: value` per line."
        )
    return front, body


def _parse_sections(body: str) -> list[str]:
    """The texts of the three sections; other headings belong to the text."""
    before, *parts = re.split(rf"^## ({_NAMES})[ \t]*$", body, flags=re.MULTILINE)
    found = tuple(parts[::2])
    if before.strip() or found != SECTIONS:
        raise InvalidInputError(
            f"The sections must be {', '.join(SECTIONS)}, each as a `## ` heading, "
            "with nothing "
            f"before them; found {', '.join(found[:9]) or 'none'}."
        )
    return [
        _HEADING.sub(lambda line: line.group().removeprefix("\\"), t)
        for t in parts[1::2]
    ]


def _parse_list(text: str) -> list[str]:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for line in lines:
        if not line.startswith("- "):
            raise InvalidInputError(
                f"Evidence is one `- id` per line, not {line[:80]!r}."
            )
    return [line[2:].strip() for line in lines]
