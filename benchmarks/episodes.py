"""The command `python -m benchmarks episodes`: what follows when something changes.

    python -m benchmarks episodes --out DIR --model queue:DIR     # read, then recall
    python -m benchmarks episodes --out DIR --model recorded:FILE --record FILE
    python -m benchmarks episodes --out DIR                       # figures of verdicts

Each file of `benchmarks/sets/episodes` is the life of one user in which one thing
changes late. A model reads its sessions turn by turn; then every question is asked of
the memory, and the contexts are kept. `store.md` in the folder shows a judge what is
stored; the judge writes `store-verdicts.json`: `{"a1": {"c1": "right", …}, …}`.
`contexts.json` has what a reader is to answer from; answers lie in `answers.json`
(`{"a1": {"c1.task.fast": "…"}}`), their verdicts in `answer-verdicts.json` in the same
form.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.data.episodes import episodes_of
from benchmarks.data.files import read_json
from benchmarks.reasoning import share
from benchmarks.truth.cases import USER, Case, read_lines
from benchmarks.truth.command import RULES, Models, models_of, record
from benchmarks.truth.playing import no_session_ends_by_itself, opened, tag_of
from benchmarks.truth.watching import RecordedModel, Watched, as_rows
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import InvalidInputError, LangMemGraphError
from langmem_graph.memory import Memory, UserMemory
from langmem_graph.storage import add_messages

Row = dict[str, Any]
SET = common.REPOSITORY / "benchmarks" / "sets" / "episodes"
TOKENS = 1_250
"""Of a context."""
KINDS = (
    *("cascade", "absence", "independent"),
    *("tracking", "aggregation", "forget", "verbatim"),
)
STORED = KINDS[:3]
"""The kinds of facts that are looked for in the store."""


@dataclass(frozen=True)
class Run:
    """What all episodes of a run have in common."""

    out: Path
    models: Models
    embeddings: Embeddings
    modes: Sequence[Any]
    forms: str
    kinds: Sequence[str]
    """Of the facts that are asked about."""
    between: Sequence[Row]
    """Messages of other talk that no model reads, spread between the sessions."""


def main(words: Sequence[str]) -> None:
    """The command line.

    Raises:
        LangMemGraphError: an unusable option, or episodes that could not be read.
    """
    made = argparse.ArgumentParser(
        prog="python -m benchmarks episodes", description=__doc__
    )
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--model", help="queue:DIR, recorded:FILE, or a model's name")
    made.add_argument(
        "--set",
        type=Path,
        default=SET,
        help="a folder of episodes, or a file of MEME's or STALE's",
    )
    made.add_argument("--only", default="", help="ids of episodes, with commas")
    made.add_argument(
        "--modes", default="fast", help="of recall, with commas: fast,auto"
    )
    made.add_argument(
        "--forms",
        choices=("all", "rotated"),
        default="all",
        help="rotated: of a fact's three questions one is asked, each form as often",
    )
    made.add_argument(
        "--kinds", default=",".join(KINDS), help="of facts to ask about, with commas"
    )
    made.add_argument(
        "--between", type=Path, help="messages of unread other talk, JSON lines"
    )
    made.add_argument("--threads", type=int, default=12)
    made.add_argument("--record", type=Path, help="where to write calls and answers")
    options = made.parse_args(words)
    episodes = read_episodes(options.set, options.only)
    if options.model:
        models, named = models_of(options.model)
        with_cache = cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
        between = read_lines(options.between) if options.between else []
        run = Run(
            out=options.out,
            models=models,
            embeddings=with_cache,
            modes=options.modes.split(","),
            forms=options.forms,
            kinds=options.kinds.split(","),
            between=between,
        )
        play_all(episodes, run, options.threads)
        write_sheets(episodes, options.out)
        if options.record:
            record(options.out, options.record, named)
    print(report(episodes, options.out))


def read_episodes(folder: Path, only: str = "") -> list[Row]:
    """The episodes of a folder, by their ids, or that of one file.

    Raises:
        InvalidInputError: the folder has none of these ids.
    """
    wanted = set(only.split(",")) if only else None
    files = sorted(folder.glob("*.json")) if folder.is_dir() else [folder]
    rows = [row for file in files for row in episodes_of(read_json(file))]
    kept = [row for row in rows if wanted is None or row["id"] in wanted]
    if not kept:
        raise InvalidInputError(f"{folder} has no episode {only or ''}.")
    return kept


def case_of(episode: Row) -> Case:
    """An episode as a case of `truth`."""
    change = episode.get("change") or [len(episode["sessions"]) - 1, 0]
    return Case(
        id=episode["id"],
        language=episode["language"],
        kind="episode",
        group="change",
        sessions=episode["sessions"],
        turn=(change[0], change[1]),
    )


def play_all(episodes: Sequence[Row], run: Run, threads: int) -> None:
    """Read the episodes that were not read yet, and ask their questions.

    Raises:
        LangMemGraphError: episodes that could not be read, after all others were.
    """
    (run.out / RULES).mkdir(parents=True, exist_ok=True)
    due = [one for one in episodes if not _file(run.out, one["id"]).exists()]
    failed = []
    with no_session_ends_by_itself(), ThreadPoolExecutor(threads) as pool:
        work = [(one["id"], pool.submit(play, one, run)) for one in due]
        for name, done in work:
            if error := done.exception():
                failed.append(f"{name}: {type(error).__name__}: {error}")
    if failed:
        raise LangMemGraphError(" | ".join(failed))


def play(episode: Row, run: Run) -> None:
    """Read one episode and ask its questions; its memory stays in the folder."""
    case, tag = case_of(episode), tag_of(episode["id"])
    inner = run.models(tag)
    watched = Watched(inner=inner)
    folder = run.out / f"memory-{case.id}"
    with opened(folder, watched, run.embeddings, tag) as (memory, reports):
        _read(case, memory, watched, run.between)
        if isinstance(inner, RecordedModel) and inner.missing:
            raise InvalidInputError(f"no answer is recorded: {inner.missing[0]}")
        if reports[-1].pending:
            raise InvalidInputError(f"not read: {reports[-1].problems}")
        user = memory.user(USER)
        found = {
            "id": case.id,
            "holds": user.export_records(),
            "all": user.export_records(history=True),
            "reports": [one.model_dump(mode="json") for one in reports],
            "contexts": _contexts(episode, case, user, run),
        }
    for name, text in watched.rules.items():
        (run.out / RULES / f"{name}.txt").write_text(text, encoding="utf-8")
    found["calls"] = as_rows(watched.calls)
    text = json.dumps(found, ensure_ascii=False, indent=1, default=str)
    _file(run.out, case.id).write_text(text, encoding="utf-8")


def _read(case: Case, memory: Memory, watched: Watched, between: Sequence[Row]) -> None:
    """Add turn by turn and extract what is due, as middleware does it."""
    user = memory.user(USER)
    for session in range(len(case.sessions)):
        watched.session = session
        for turn in case.turns(session):
            user.add(turn, session_id=f"s{session}")
            user.drain()
        user.flush()
        _add_other_talk(memory, between[session :: len(case.sessions)], case, session)


def _add_other_talk(
    memory: Memory, said: Sequence[Row], case: Case, session: int
) -> None:
    """Store messages that count as read, in a session after this one."""
    if not said:
        return
    at = datetime.fromisoformat(case.messages(session)[-1]["at"]) + timedelta(hours=1)
    rows = [
        {"role": one.get("role", "user"), "content": one["content"], "at": at}
        for one in said
    ]
    add_messages.add_messages(
        memory._services,
        USER,
        rows,
        f"other-{session}",
        None,
        whole_conversation=False,
        by_hand=add_messages.ByHand(),
    )


def _contexts(episode: Row, case: Case, user: UserMemory, run: Run) -> Row:
    """What a recall gives for each question, the day after the last message."""
    asked = case.end + timedelta(days=1)
    contexts: Row = {}
    for name, question in questions_of(episode, run.forms, run.kinds):
        for mode in run.modes:
            found = user.recall(question, mode=mode, max_tokens=TOKENS, at=asked)
            contexts[f"{name}.{mode}"] = {
                "question": question,
                "context": found.context,
                "calls": found.report.llm_calls,
            }
    return contexts


def questions_of(
    episode: Row, forms: str, kinds: Sequence[str] = KINDS
) -> Iterable[tuple[str, str]]:
    """The questions of an episode by fact and form, such as `c1.task`.

    With `rotated` forms one of each fact's questions: the next one for each fact, and
    begun at another one for each episode.
    """
    begin = sum(map(ord, episode["id"]))
    for place, fact in enumerate(episode["facts"], begin):
        questions = list(fact["questions"].items())
        if forms == "rotated":
            questions = [questions[place % len(questions)]]
        for form, question in questions if fact["kind"] in kinds else ():
            yield f"{fact['id']}.{form}", question


def _file(out: Path, name: str) -> Path:
    return out / f"case-{name}.json"


def write_sheets(episodes: Sequence[Row], out: Path) -> None:
    """What a judge of the store and a reader of contexts are shown."""
    lines, contexts = list[str](), dict[str, Row]()
    for episode in episodes:
        found = json.loads(_file(out, episode["id"]).read_text(encoding="utf-8"))
        contexts[episode["id"]] = found["contexts"]
        lines += _store_sheet(episode, found)
    (out / "store.md").write_text("\n".join(lines), encoding="utf-8")
    text = json.dumps(contexts, ensure_ascii=False, indent=1)
    (out / "contexts.json").write_text(text, encoding="utf-8")


def _store_sheet(episode: Row, found: Row) -> Iterable[str]:
    """Current records, those that no longer hold, and the facts to be looked for."""
    holds = {row["record_id"] for row in found["holds"]}
    yield f"# {episode['id']}\n\n## Current"
    for row in found["holds"]:
        draft = row.get("confirmation", "")
        yield f"- {row['said_at'][:10]} {draft} {json.dumps(row['text'])}"
    yield "\n## No longer true"
    for row in found["all"]:
        if row["record_id"] not in holds:
            yield f"- {row['said_at'][:10]} {json.dumps(row['text'])}"
    yield "\n## Facts"
    for fact in episode["facts"]:
        if fact["kind"] in STORED:
            told = {
                name: fact[name]
                for name in ("before", "after", "holds", "right")
                if name in fact
            }
            yield f"- {fact['id']} ({fact['kind']}): {json.dumps(told)}"
    yield ""


def report(episodes: Sequence[Row], out: Path) -> str:
    """The figures of the verdicts that there are, by kind of fact and by mode."""
    lines = []
    for name in ("store-verdicts.json", "answer-verdicts.json"):
        file = out / name
        if not file.exists():
            continue
        judged = _judged(episodes, json.loads(file.read_text(encoding="utf-8")))
        modes = sorted({one.mode for one in judged})
        rows = []
        for kind in KINDS:
            of_kind = [one for one in judged if one.kind == kind]
            if not of_kind:
                continue
            shares = [
                share([one.is_right for one in of_kind if one.mode == mode])
                for mode in modes
            ]
            rows.append([kind, *shares])
        lines += [name, common.table(["right", *modes], rows)]
    return "\n".join(lines) or "No verdicts yet."


class Judged(NamedTuple):
    """One verdict; `mode` is that of the recall, or `store`."""

    kind: str
    mode: str
    is_right: bool


def _judged(episodes: Sequence[Row], verdicts: Row) -> list[Judged]:
    judged = []
    for episode in episodes:
        kinds = {fact["id"]: fact["kind"] for fact in episode["facts"]}
        for name, verdict in verdicts.get(episode["id"], {}).items():
            fact, *asked = name.split(".")
            mode = asked[-1] if asked else "store"
            judged.append(Judged(kinds[fact], mode, verdict == "right"))
    return judged
