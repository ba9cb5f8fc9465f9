"""Sessions in order, questions where they belong, every system, one log line each."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from time import perf_counter

from rich.progress import Progress, TaskID

from benchmarks.common import progress
from benchmarks.data.items import BenchDataError, Conversation, Question, Session
from benchmarks.job import Job
from benchmarks.judges import judge
from benchmarks.log import Log, Row
from benchmarks.models import Spent
from benchmarks.readers import Passage, Reply
from benchmarks.systems.catalogue import Spec, System, Workshop


def run(job: Job, *, retry: bool = False, fresh: bool = False) -> Log:
    """Ask what has not been asked yet.

    Args:
        job: what to measure.
        retry: ask these systems again where an answer or a judgement failed.
        fresh: forget an earlier run of the same job.

    Returns:
        The log, with what earlier runs of the same job have left in it.
    """
    folder = job.folder
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    names = [spec.name for spec in job.specs]
    log = Log(folder / "items.jsonl", retry=names if retry else ())
    (folder / "config.json").write_text(
        json.dumps(job.settings, indent=1), encoding="utf-8"
    )
    talks = job.data.conversations
    with progress() as bar:
        every = bar.add_task(
            job.data.title, total=sum(_asked(job, talk, log) for talk in talks)
        )
        for talk in talks:
            _measure(_Run(job, talk, log, bar, every))
    shutil.rmtree(folder / "memories", ignore_errors=True)
    return log


def _asked(job: Job, talk: Conversation, log: Log) -> int:
    """How many answers are missing."""
    return sum(len(_open(spec, talk, log)) for spec in job.specs)


def _open(spec: Spec, talk: Conversation, log: Log) -> list[Question]:
    return [
        q for q in talk.questions if not log.has("asked", spec.name, talk.name, q.id)
    ]


class _Run:
    """One conversation of a run.

    A memory lies in the run's folder until its conversation is done, so that what a
    model has read is not read again when a stopped run is continued.
    """

    def __init__(
        self, job: Job, talk: Conversation, log: Log, bar: Progress, every: TaskID
    ) -> None:
        self.job, self.talk, self.log, self.bar, self.every = job, talk, log, bar, every
        self.specs = [spec for spec in job.specs if _open(spec, talk, log)]
        own = hashlib.sha256(talk.name.encode("utf-8", "replace")).hexdigest()[:16]
        self.folder = job.folder / "memories" / own
        if self._knows_too_much():
            shutil.rmtree(self.folder)

    def _knows_too_much(self) -> bool:
        """Whether the memory of a stopped run holds sessions that an open question may
        not see.
        """
        rows = self.log.rows("begun")
        begun = sum(row["conversation"] == self.talk.name for row in rows)
        waiting = [
            q.before for spec in self.specs for q in _open(spec, self.talk, self.log)
        ]
        seen = min((one for one in waiting if one is not None), default=begun)
        return self.folder.exists() and begun > seen

    @contextmanager
    def systems(self) -> Iterator[list[System]]:
        """Those that still have something to answer."""
        model = self.job.reader.speaker.model if self.job.reader else None
        shop = Workshop(
            self.folder,
            self.job.embeddings,
            model,
            self.job.full_tokens,
            self.job.database,
        )
        with ExitStack() as stack:
            made = []
            for spec in self.specs:
                system = spec.make(shop)
                stack.callback(system.close)
                made.append(system)
            yield made
        # not where an error or a key press ended it
        shutil.rmtree(self.folder, ignore_errors=True)


def _measure(run: _Run) -> None:
    if not run.specs:
        return
    with run.systems() as systems:
        for place, (questions, session) in enumerate(run.talk.steps()):
            for question in questions:
                _ask_all(run, systems, question)
            if session is not None:
                _add_to_all(run, systems, session, place)
        for system in systems:
            key = {"system": system.name, "conversation": run.talk.name}
            turns = sum(len(session.messages) for session in run.talk.sessions)
            run.log.add({"row": "size", **key, "bytes": system.size(), "turns": turns})


def _add_to_all(
    run: _Run, systems: Sequence[System], session: Session, place: int
) -> None:
    key = {"conversation": run.talk.name, "place": place, "session": session.session_id}
    run.log.add({"row": "begun", **key})
    for system in systems:
        spent = system.add(session)
        row = {
            "row": "added",
            "system": system.name,
            **key,
            "turns": len(session.messages),
        }
        run.log.add(row | asdict(spent) | {"failures": _trouble(spent)})


def _trouble(spent: Spent) -> list[str]:
    """Of memory itself, as one failure."""
    return [f"memory: {'; '.join(spent.problems)[:500]}"] if spent.problems else []


def _ask_all(run: _Run, systems: Sequence[System], question: Question) -> None:
    for system in systems:
        if not run.log.has("asked", system.name, run.talk.name, question.id):
            run.log.add(_row(run, system, question))
            run.bar.advance(run.every)


def _row(run: _Run, system: System, question: Question) -> Row:
    row: Row = {
        "row": "asked",
        "system": system.name,
        "conversation": run.talk.name,
        "question": question.id,
        "category": question.category,
        "kind": question.kind,
        "gold": sorted(question.gold),
        "failures": [],
    }
    if run.job.reader is None:
        return row | _searched(run.job, system, question)
    return row | _answered(run.job, system, question)


def _searched(job: Job, system: System, question: Question) -> Row:
    start, failures = perf_counter(), []
    found: list[Passage] = []
    try:
        found = system.search(question.text, max(job.data.cuts), job.by)
    except Exception as error:  # noqa: BLE001  # a system that fails has found nothing
        failures.append(f"system: {type(error).__name__}: {error}"[:500])
    seconds = perf_counter() - start
    return {
        "found": [one.id for one in found],
        "seconds": seconds,
        "failures": failures,
    }


def _answered(job: Job, system: System, question: Question) -> Row:
    assert job.reader is not None
    start = perf_counter()
    try:
        reply = system.answer(question, job.k, job.reader)
    except BenchDataError:  # the run cannot go on
        raise
    except Exception as error:  # noqa: BLE001  # a system that fails has answered nothing
        reply = Reply(
            failed=True, problems=[f"system: {type(error).__name__}: {error}"[:500]]
        )
    reply.spent.seconds = perf_counter() - start
    verdict = judge(job.data.task, question, reply, job.judge, paper=job.paper_rubrics)
    return {
        "reply": reply.as_dict() | ({} if job.data.task == "tool" else {"shown": []}),
        "scores": verdict.scores,
        "judged": asdict(verdict.spent),
        "reason": verdict.reason,
        "failures": [*verdict.failures, *_trouble(reply.spent)],
    }
