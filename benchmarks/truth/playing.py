"""One case: its sessions are added to a filled memory, and a model reads them."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel

from benchmarks.truth.cases import USER, Case
from benchmarks.truth.outcome import outcome
from benchmarks.truth.watching import RecordedModel, Watched
from langmem_graph.errors import LangMemGraphError
from langmem_graph.extraction import claim_due_batch
from langmem_graph.memory import Memory
from langmem_graph.reports import FlushReport
from langmem_graph.settings import (
    ExtractionSettings,
    ReasoningSettings,
    Settings,
    StorageSettings,
)

Mode = Literal["live", "backlog"]
Row = dict[str, Any]
MODES: tuple[Mode, ...] = ("live", "backlog")
_MONTH = timedelta(days=30)
PATIENT = Settings(
    embed_seconds=_MONTH.total_seconds(),
    extraction=ExtractionSettings(
        call_seconds=_MONTH.total_seconds(), debounce_seconds=0
    ),
    reasoning=ReasoningSettings(
        seconds=_MONTH.total_seconds(), call_seconds=_MONTH.total_seconds()
    ),
    storage=StorageSettings(index_batch=5_000, max_open_users=1),
)
"""A person may answer, so nothing has a time limit; vectors are compared exactly."""


class CaseFailedError(LangMemGraphError):
    """A case could not be carried out to its end."""


@dataclass(frozen=True)
class Setup:
    """What all cases of a run have in common.

    Attributes:
        mode: `live` adds turn by turn and extracts what is due after each; `backlog`
            adds all sessions and extracts them in one flush.
        model_for: gives the model of a case, by the case's opaque tag.
        filled: the directory of a filled memory by language.
    """

    mode: Mode
    model_for: Callable[[str], BaseChatModel]
    embeddings: Embeddings
    filled: dict[str, Path]


def tag_of(case_id: str) -> str:
    """A name that says nothing about the case, the same in every run."""
    return hashlib.sha256(f"truth {case_id}".encode()).hexdigest()[:6]


def play(case: Case, setup: Setup) -> tuple[Row, dict[str, str]]:
    """Carry out one case.

    Returns:
        What memory holds then and what it cost, and the system texts of the calls by
        their names.

    Raises:
        CaseFailedError: a recorded answer is missing, or messages were not read.
    """
    tag = tag_of(case.id)
    inner = setup.model_for(tag)
    watched, begun = Watched(inner=inner), datetime.now(UTC).replace(tzinfo=None)
    with TemporaryDirectory() as place:
        folder = Path(place) / "memory"
        shutil.copytree(setup.filled[case.language], folder)
        with opened(folder, watched, setup.embeddings, tag) as (memory, reports):
            _ADD[setup.mode](case, memory, watched)
            _check(case, inner, reports)
            found = outcome(case, memory, watched.calls, reports, begun)
    return {"mode": setup.mode, **found}, watched.rules


@contextmanager
def opened(
    folder: Path, model: BaseChatModel, embeddings: Embeddings, tag: str, **options: Any
) -> Iterator[tuple[Memory, list[FlushReport]]]:
    """A memory, and the list to which the report of each of its flushes is appended.

    The aliases of a case's messages are the same in every run, so that recorded answers
    fit.
    """
    with Memory(
        folder, model=model, embeddings=embeddings, settings=PATIENT, **options
    ) as memory:
        assert memory._pipelines is not None
        runner, reports = memory._pipelines.extraction, list[FlushReport]()
        runner.deps = replace(runner.deps, first_alias=200 + int(tag, 16) % 600)
        flush = runner.flush

        async def reported(user_id: str, **asked: Any) -> FlushReport:
            report = await flush(user_id, **asked)
            reports.append(report)
            return report

        runner.flush = reported  # type: ignore[method-assign]
        yield memory, reports


def _live(case: Case, memory: Memory, watched: Watched) -> None:
    """As middleware does it: each turn is added, then what is due is extracted."""
    user = memory.user(USER)
    for session in range(len(case.sessions)):
        watched.session = session
        for turn in case.turns(session):
            user.add(turn, session_id=f"s{session}")
            user.drain()
    user.flush()


def _backlog(case: Case, memory: Memory, watched: Watched) -> None:
    """All sessions are added before anything is extracted, as an import does it."""
    user = memory.user(USER)
    for session in range(len(case.sessions)):
        user.add(case.messages(session), session_id=f"s{session}")
    user.flush()


_ADD: dict[str, Callable[[Case, Memory, Watched], None]] = {
    "live": _live,
    "backlog": _backlog,
}


def _check(case: Case, inner: BaseChatModel, reports: list[FlushReport]) -> None:
    if isinstance(inner, RecordedModel) and inner.missing:
        raise CaseFailedError(f"{case.id}: {inner.missing[0]}")
    if not reports or reports[-1].pending:
        problems = "; ".join(
            problem for report in reports for problem in report.problems
        )
        raise CaseFailedError(
            f"{case.id}: messages were not read: {problems or 'no flush'}"
        )


@contextmanager
def no_session_ends_by_itself() -> Iterator[None]:
    """While a person answers hours may pass, after which a session would count as
    ended.
    """
    idle = claim_due_batch.IDLE
    claim_due_batch.IDLE = _MONTH
    try:
        yield
    finally:
        claim_due_batch.IDLE = idle
