"""Markdown with YAML front matter and named sections, written and read back without loss."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from langmem_graph.errors import InvalidInputError

MAX_FILE_CHARS = 200_000
"""More than the longest file we write."""
MAX_FRONT_CHARS = 8_000
_FENCE = "---\n"
SECTIONS = ("Summary", "Narrative", "Evidence")
_NAMES = "|".join(SECTIONS)
_HEADING = re.compile(rf"^\\*## (?:{_NAMES})[ \t]*$", re.MULTILINE)


def write(front: Mapping[str, Any], body: str) -> str:
    """Front matter, then the body."""
    fields = yaml.safe_dump(dict(front), allow_unicode=True, sort_keys=False, width=10**6)
    return f"{_FENCE}{fields}{_FENCE}\n{body}\n"


def write_sections(sections: Mapping[str, str]) -> str:
    """Each text under its heading; a line of a text that looks like a heading is escaped."""
    return "\n\n".join(
        f"## {name}\n\n{_HEADING.sub(_escaped, text)}" for name, text in sections.items()
    )


def read(text: str | bytes) -> tuple[dict[str, Any], str]:
    """The front matter's fields and the body.

    Raises:
        InvalidInputError: naming what is wrong.
    """
    plain = _decoded(text).removeprefix("\ufeff").replace("\r\n", "\n")
    start, fence, rest = plain.partition(_FENCE)
    fields, end, body = rest.partition(f"\n{_FENCE}")
    if start or not fence or not end:
        raise InvalidInputError("The front matter is missing: begin with fields between two '---'.")
    front = _front(fields)
    if not isinstance(front, dict) or not all(isinstance(name, str) for name in front):
        raise InvalidInputError("The front matter must be fields, one `name: value` per line.")
    return front, body


def _decoded(text: str | bytes) -> str:
    if len(text) > MAX_FILE_CHARS:
        raise InvalidInputError(f"The file is too long: at most {MAX_FILE_CHARS:,} characters.")
    if isinstance(text, str):
        return text
    try:
        return bytes(text).decode("utf-8")
    except (UnicodeDecodeError, TypeError) as error:
        raise InvalidInputError(f"The file is not UTF-8 text: {error}.") from error


def _front(fields: str) -> Any:
    if len(fields) > MAX_FRONT_CHARS:
        raise InvalidInputError(f"The front matter is too long: at most {MAX_FRONT_CHARS:,}.")
    try:
        problem = _trap(fields)
        front = None if problem else yaml.safe_load(fields)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, AttributeError) as error:
        cause = " ".join(str(error).split())[:200]
        raise InvalidInputError(f"The front matter is not YAML: {cause}.") from error
    if problem:
        raise InvalidInputError(problem)
    return front


def _trap(fields: str) -> str | None:
    """What would make reading the YAML costly: a few lines of aliases unfold to gigabytes."""
    depth = 0
    for event in yaml.parse(fields, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            return "The front matter uses YAML aliases (*name); write the values out."
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > 2:
            return "The front matter may hold texts, numbers and lists of them, nothing deeper."
    return None


def read_sections(body: str) -> dict[str, str]:
    """The text under each of our headings; other headings belong to the text.

    Raises:
        InvalidInputError: where one is missing, stands twice, or text stands before them.
    """
    before, *parts = re.split(rf"^## ({_NAMES})[ \t]*$", body, flags=re.MULTILINE)
    found = tuple(parts[::2])
    if before.strip() or found != SECTIONS:
        raise InvalidInputError(
            f"The sections must be {', '.join(SECTIONS)}, each as a `## ` heading, with nothing "
            f"before them; found {', '.join(found[:9]) or 'none'}."
        )
    texts = (_HEADING.sub(_unescaped, text) for text in parts[1::2])
    return dict(zip(found, texts, strict=True))


def read_list(text: str) -> list[str]:
    """The items of a Markdown list.

    Raises:
        InvalidInputError: for a line that is no item.
    """
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    for line in lines:
        if not line.startswith("- "):
            raise InvalidInputError(f"Evidence is one `- id` per line, not {line[:80]!r}.")
    return [line[2:].strip() for line in lines]


def _escaped(heading: re.Match[str]) -> str:
    return f"\\{heading.group()}"


def _unescaped(heading: re.Match[str]) -> str:
    return heading.group().removeprefix("\\")
