"""`langmem-graph import`: adds a file's sessions one by one, with a progress bar."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langmem_graph.cli.printing import progress_bar
from langmem_graph.errors import InvalidInputError
from langmem_graph.importers import read_conversations, read_records
from langmem_graph.memory import UserMemory
from langmem_graph.reports import AddReport

MAX_REASONS = 20


def import_file(user: UserMemory, file: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Add all conversations of a file; what cannot be stored is counted with its reason."""
    if not file.is_file():
        raise InvalidInputError(f"There is no file {file}.")
    conversations = [talk for talk in read_conversations(file) if talk.messages]
    totals: Counter[str] = Counter(sessions=len(conversations))
    reasons: list[str] = []
    total = sum(len(talk.messages) for talk in conversations)
    with embedding_bar(user, "importing", total, quiet) as advance_to:
        done = 0
        for talk in conversations:
            try:
                report = user.add(talk.messages, session_id=talk.session_id)
            except InvalidInputError as error:  # this session cannot be stored; the others can
                totals["rejected"] += len(talk.messages)
                reasons.append(f"{talk.session_id!r}: {error}")
                continue
            _count(totals, report)
            reasons += [f"{talk.session_id}: {r.reason}" for r in report.rejected]
            done += len(talk.messages)
            advance_to(done)
    reasons += _import_records(user, file, totals)
    return {**totals, "reasons": reasons[:MAX_REASONS]}


def _import_records(user: UserMemory, file: Path, totals: Counter[str]) -> list[str]:
    """Add the file's records, after the messages that they cite."""
    rows = read_records(file)
    if not rows:
        return []
    report = user.add_records(rows)
    totals["records"] += len(report.stored)
    totals["rejected"] += len(report.rejected)
    return [f"record {r.record_id or r.position}: {r.reason}" for r in report.rejected]


def _count(totals: Counter[str], report: AddReport) -> None:
    for name in ("stored", "already_known", "renamed", "rejected", "not_yet_embedded"):
        totals[name] += len(getattr(report, name))


@contextmanager
def embedding_bar(
    user: UserMemory, label: str, total: int | None, quiet: bool
) -> Iterator[Callable[[int], None]]:
    """A progress bar that moves with each batch that is embedded; with None its end is unknown."""
    services = user._services  # same package
    with progress_bar(quiet) as bar:
        task = bar.add_task(label, total=total)
        services.on_embedded = lambda count: bar.advance(task, count)
        try:
            yield lambda done: bar.update(task, completed=done)
        finally:
            services.on_embedded = None
