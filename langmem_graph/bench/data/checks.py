"""What every loader's data must be: told apart by names, or it is left out unseen; and texts."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path

from langmem_graph.bench.items import BenchDataError, Conversation, DataSet

Loader = Callable[[Path], DataSet]


def checked(load: Loader) -> Loader:
    """The loader, refusing data in which two questions have one name, or something is no text."""

    @wraps(load)
    def reading(data: Path) -> DataSet:
        found = load(data)
        _check(found, "conversation", (talk.name for talk in found.conversations))
        for talk in found.conversations:
            _check_texts(found, talk)
            _check(found, f"question of {talk.name}", (question.id for question in talk.questions))
        return found

    return reading


def _check_texts(data: DataSet, talk: Conversation) -> None:
    said = [message["content"] for session in talk.sessions for message in session.messages]
    for text in (*said, *(question.text for question in talk.questions)):
        if not isinstance(text, str):
            raise BenchDataError(f"Not in {data.title}'s layout: {str(text)[:80]} is no text.")


def _check(data: DataSet, what: str, names: Iterable[str]) -> None:
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        files = ", ".join(str(file) for file in data.files[:3])
        raise BenchDataError(f"{data.title}: the {what} {name!r} is there twice, in {files}.")
