"""Finding, reading and checking a data set's files."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.data.items import BenchDataError, Conversation, DataSet

T = TypeVar("T")
Loader = Callable[[Path], DataSet]


def find(data: Path, name: str, pattern: str, wanted: str) -> list[Path]:
    """The files of a data set: `data` itself, or in `data/name`, or in `data`.

    Args:
        data: what the user named.
        name: the data set's folder.
        pattern: of the files in it.
        wanted: what to get, and from where.

    Raises:
        BenchDataError: says where it was looked and what is wanted.
    """
    if data.is_file():
        return [data]
    for folder in (data / name, data):
        if found := sorted(one for one in folder.glob(pattern) if one.is_file()):
            return found
    raise BenchDataError(f"No {pattern} in {data / name} or {data}. Wanted: {wanted}.")


def only(files: Sequence[Path]) -> list[Path]:
    """The one file there is.

    Raises:
        BenchDataError: there are several, which are versions of one data set.
    """
    if len(files) > 1:
        names = ", ".join(str(file) for file in files)
        raise BenchDataError(
            f"Which one? There are {names}. Name the file with --data."
        )
    return list(files)


def read_json(file: Path) -> Any:
    """A JSON file, or the lines of a JSONL file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix == ".jsonl":
            return [_loaded(line) for line in text.split("\n") if line.strip()]
        return _loaded(text)
    except (ValueError, RecursionError) as error:
        raise BenchDataError(f"{file} is not JSON: {error}") from error


def _loaded(text: str) -> Any:
    """JSON; half a pair of signs, which it may hold and no file or database takes, is
    replaced.
    """
    data = json.loads(text)
    if "\\ud" not in text and "\\uD" not in text:
        return data
    return json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))


def read_all(files: Sequence[Path]) -> list[Any]:
    """The objects of all files, each holding one or a list of them."""
    read = [read_json(file) for file in files]
    return [
        one
        for content in read
        for one in (content if isinstance(content, list) else [content])
    ]


def in_layout(title: str, files: Sequence[Path], build: Callable[[], T]) -> T:
    """What `build` makes of the files.

    Raises:
        BenchDataError: they are not in the data set's layout.
    """
    try:
        return build()
    except (
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
        IndexError,
        OverflowError,
    ) as error:
        names = ", ".join(str(file) for file in files[:3])
        problem = f"{type(error).__name__}: {error}"
        raise BenchDataError(
            f"Not in {title}'s layout: {names} ({problem})."
        ) from error


def checked(load: Loader) -> Loader:
    """The loader, refusing data in which two questions have one name, or something is
    no text.
    """

    @wraps(load)
    def reading(data: Path) -> DataSet:
        found = load(data)
        _check(found, "conversation", (talk.name for talk in found.conversations))
        for talk in found.conversations:
            _check_texts(found, talk)
            _check(
                found,
                f"question of {talk.name}",
                (question.id for question in talk.questions),
            )
        return found

    return reading


def _check_texts(data: DataSet, talk: Conversation) -> None:
    said = [
        message["content"] for session in talk.sessions for message in session.messages
    ]
    for text in (*said, *(question.text for question in talk.questions)):
        if not isinstance(text, str):
            raise BenchDataError(
                f"Not in {data.title}'s layout: {str(text)[:80]} is no text."
            )


def _check(data: DataSet, what: str, names: Iterable[str]) -> None:
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        files = ", ".join(str(file) for file in data.files[:3])
        raise BenchDataError(
            f"{data.title}: the {what} {name!r} is there twice, in {files}."
        )
