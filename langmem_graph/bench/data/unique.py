"""What a run tells apart by its name needs a name of its own, or it would be left out unseen."""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path

from langmem_graph.bench.items import BenchDataError, DataSet

Loader = Callable[[Path], DataSet]


def told_apart(load: Loader) -> Loader:
    """The loader, refusing data in which two conversations, or two of their questions, are one."""

    @wraps(load)
    def checked(data: Path) -> DataSet:
        found = load(data)
        _check(found, "conversation", (talk.name for talk in found.conversations))
        for talk in found.conversations:
            _check(found, f"question of {talk.name}", (question.id for question in talk.questions))
        return found

    return checked


def _check(data: DataSet, what: str, names: Iterable[str]) -> None:
    name, times = next(iter(Counter(names).most_common(1)), ("", 0))
    if times > 1:
        files = ", ".join(str(file) for file in data.files[:3])
        raise BenchDataError(f"{data.title}: the {what} {name!r} is there twice, in {files}.")
