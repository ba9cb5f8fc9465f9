"""Questions of a data set, answered and judged by hand: `python -m benchmarks.by_hand`.

    python -m benchmarks.by_hand OUT --data DIR --queue Q --named NAME --judge-named
    NAME python -m benchmarks.by_hand OUT

The first asks a sample of the questions with the context that each system makes, and
has the answers judged when all are there; a stopped run continues. The second prints
the figures of what was answered and judged. As `python -m benchmarks`, but for
somebody who answers a folder's prompts (see `queue_model`): all of them wait at the
same time, in an order by chance, nothing in them says which system made the context,
and the prompts of one question lie in different folders, `Q/1` and `Q/2`, so that
nobody who answers one of these sees both. Those of the judge lie in `Q/judge`; where a
model plans what `recall` shows (`ours-auto`), its prompts lie in `Q/plan`;
`ours-fast` is `recall` without a model. More messages may be shown than elsewhere, so
that every system fills the room it has; 20 are fewer tokens where a system prefers
short ones. What is kept holds ids, answers and verdicts, and no text of the data set.
"""

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.data import LOADERS
from benchmarks.data.items import Conversation, DataSet, Question
from benchmarks.data.locomo import ADVERSARIAL
from benchmarks.job import commit, fingerprint, limited
from benchmarks.judges import judge
from benchmarks.log import Log, Row
from benchmarks.metrics.statistics import bootstrap_interval
from benchmarks.models import Said, Speaker
from benchmarks.queue_model import Queue, QueueModel
from benchmarks.readers import Context, ContextReader, Reply, quoted
from benchmarks.systems.catalogue import Workshop, catalogue
from benchmarks.systems.ours import SharedMemory, context_of
from benchmarks.truth.cases import read_lines
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory
from langmem_graph.results import RecallMode
from langmem_graph.settings import ReasoningSettings, Settings
from langmem_graph.tokens import token_counter

ABOUT, ANSWERS, VERDICTS = "about.json", "answers.jsonl", "verdicts.jsonl"
SEED = 17
MOST_TALKS = 16  # read at the same time
_MONTH = 2_592_000.0
_PATIENT = Settings(
    embed_seconds=_MONTH,
    reasoning=ReasoningSettings(seconds=_MONTH, call_seconds=_MONTH),
)
RECALLED: dict[str, RecallMode] = {"ours-auto": "auto", "ours-fast": "fast"}
"""What `recall` shows, where a model plans for each question and where none does;
nobody has read the messages.
"""


@dataclass(frozen=True)
class Shown:
    """How much of memory is shown: messages and tokens at most; planning asks in
    `queue`.
    """

    k: int
    tokens: int
    queue: Path


@dataclass(frozen=True)
class Prompt:
    """A question with the context that one system made for it, and the folder it waits
    in.
    """

    system: str
    talk: str
    question: Question
    context: Context
    folder: str

    @property
    def key(self) -> tuple[str, str, str]:
        """As the logs name it."""
        return self.system, self.talk, self.question.id


def sampled(data: DataSet, count: int, seed: int) -> DataSet:
    """So many questions by chance, of each conversation and category as many as is its
    share.
    """
    talks = [
        replace(
            talk,
            questions=_by_category(
                talk.questions, random.Random(f"{seed} {talk.name}")
            ),
        )
        for talk in data.conversations
    ]
    return limited(replace(data, conversations=talks), count, with_gold=False)


def _by_category(
    questions: Sequence[Question], chance: random.Random
) -> list[Question]:
    return sorted(
        chance.sample(questions, len(questions)), key=lambda one: one.category
    )


def prompts(
    data: DataSet,
    systems: Sequence[str],
    shown: Shown,
    embeddings: Embeddings,
    seed: int,
) -> list[Prompt]:
    """All questions with the context of each system, shuffled."""
    chance = random.Random(seed)
    made = []
    with ThreadPoolExecutor(min(MOST_TALKS, len(data.conversations))) as pool:
        contexts = pool.map(
            lambda talk: _contexts(talk, systems, shown, embeddings), data.conversations
        )
    for talk, found in zip(data.conversations, contexts, strict=True):
        for question in talk.questions:
            folders = chance.sample(range(1, len(systems) + 1), len(systems))
            for system, folder in zip(systems, folders, strict=True):
                context = found[system, question.id]
                made.append(Prompt(system, talk.name, question, context, str(folder)))
    chance.shuffle(made)
    return made


def _contexts(
    talk: Conversation, names: Sequence[str], shown: Shown, embeddings: Embeddings
) -> dict[tuple[str, str], Context]:
    with TemporaryDirectory() as place:
        shop = Workshop(Path(place), embeddings)
        plain = shop.plain()  # what reasoning reads
        systems = [catalogue()[n].make(shop) for n in names if n not in RECALLED]
        for session in talk.sessions:
            plain.add(session)
            for system in systems:
                system.add(session)
        found = {
            (system.name, question.id): quoted(
                system.search(question.text, shown.k, "message"), shown.tokens
            )
            for system in systems
            for question in talk.questions
        }
        for name in RECALLED.keys() & set(names):
            found |= _recalled(talk, plain, shown, name)
        for system in systems:
            system.close()
        plain.close()
    return found


def _recalled(
    talk: Conversation, memory: SharedMemory, shown: Shown, name: str
) -> dict[tuple[str, str], Context]:
    """What `recall` shows; each question is a conversation of its own."""

    def recalled(place: int, question: Question) -> Context:
        model = QueueModel(
            queue=Queue(shown.queue / "plan"), tag=f"{talk.name}-{place:02d}"
        )
        with Memory(
            memory.place,
            embeddings=memory.embeddings,
            model=model,
            settings=_PATIENT,
            read_only=True,
        ) as reading:
            user = reading.user(memory.user.id)
            found = user.recall(
                question.text,
                k=shown.k,
                mode=RECALLED[name],
                max_tokens=shown.tokens,
                at=question.at,
            )
            return context_of(found)

    asked = list(enumerate(talk.questions))
    with ThreadPoolExecutor(max(len(asked), 1)) as pool:
        made = list(pool.map(lambda one: recalled(*one), asked))
    return {(name, one.id): text for (_, one), text in zip(asked, made, strict=True)}


def answer_all(asked: Sequence[Prompt], queue: Path, tokens: int, log: Log) -> None:
    """Have every prompt answered that has no answer yet."""

    def answered(place: int, prompt: Prompt) -> Row:
        speaker = _speaker(queue / prompt.folder, f"p{place:03d}")
        reply = ContextReader(speaker, tokens).read(prompt.question, prompt.context)
        counted = token_counter(Settings().encoding).count(prompt.context.text)
        shown = {"shown": prompt.context.ids, "context_tokens": counted}
        return {"answer": reply.text, "failures": reply.problems, **shown}

    due = [
        (place, one)
        for place, one in enumerate(asked)
        if not log.has("asked", *one.key)
    ]
    for (_, prompt), given in _side_by_side(due, lambda one: answered(*one)):
        log.add(_row(prompt, given))


def judge_all(
    asked: Sequence[Prompt], queue: Path, answers: Log, log: Log, seed: int
) -> None:
    """Have every answer judged, equal answers to one question once."""
    told = {
        (one["system"], one["conversation"], one["question"]): one
        for one in answers.rows("asked")
    }
    alike: dict[tuple[str, str, str], list[Prompt]] = {}
    for prompt in asked:
        if not log.has("asked", *prompt.key):
            own = (prompt.talk, prompt.question.id, told[prompt.key]["answer"])
            alike.setdefault(own, []).append(prompt)
    due = random.Random(f"judge {seed}").sample(
        list(enumerate(alike.values())), len(alike)
    )

    def judged(place: int, prompt: Prompt) -> Row:
        said = Said(told[prompt.key]["answer"] or None)
        reply = Reply(text=said.content or "", failed=said.content is None)
        speaker = _speaker(queue / "judge", f"j{place:03d}")
        verdict = judge("judged", prompt.question, reply, speaker)
        return {"scores": verdict.scores, "failures": verdict.failures}

    for (_, same), verdict in _side_by_side(due, lambda one: judged(one[0], one[1][0])):
        for prompt in same:
            log.add(_row(prompt, verdict))


def _side_by_side(
    due: Sequence[Any], work: Callable[[Any], Row]
) -> Iterator[tuple[Any, Row]]:
    """What each piece of work gives, as it is done; all of them wait at the
    same time.
    """
    with ThreadPoolExecutor(max(len(due), 1)) as pool, common.progress() as bar:
        running = {pool.submit(work, one): one for one in due}
        for done in bar.track(as_completed(running), len(due), description="by hand"):
            yield running[done], done.result()


def _speaker(folder: Path, tag: str) -> Speaker:
    return Speaker(QueueModel(queue=Queue(folder), tag=tag), seconds=_MONTH)


def _row(prompt: Prompt, more: Row) -> Row:
    system, talk, question = prompt.key
    told = {"system": system, "conversation": talk, "question": question}
    return {"row": "asked", **told, "category": prompt.question.category, **more}


def report(folder: Path) -> str:
    """The figures of what was answered and judged."""
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    judged, answered = read_lines(folder / VERDICTS), read_lines(folder / ANSWERS)
    kinds = sorted({row["category"] for row in judged})
    groups = {"all": kinds}
    if ADVERSARIAL in kinds:
        groups["without category 5"] = [one for one in kinds if one != ADVERSARIAL]
    groups |= {kind: [kind] for kind in kinds}
    names = about["systems"]
    rows = [
        [title, *_line([row for row in judged if row["category"] in own], names)]
        for title, own in groups.items()
    ]
    header = ["right answers", "questions", *names]
    header += [f"{names[0]} more than {name}, 95% interval" for name in names[1:]]
    parts = [
        common.table(header, rows),
        "",
        common.table(*_more(judged, answered, names)),
        "",
    ]
    calls = about.pop("model calls", {})
    lines = [
        f"model calls of {name}, mean per question: {count / about['questions']:.1f}"
        f" ({count} in all)"
        for name, count in calls.items()
    ]
    return "\n".join(
        [*parts, *lines, *(f"{name}: {value}" for name, value in about.items())]
    )


def _line(judged: Sequence[Row], names: Sequence[str]) -> list[str]:
    right = {name: _values(judged, name, "score") for name in names}
    first = right[names[0]]
    cells = [str(len(first)), *(f"{sum(right[name].values()):.0f}" for name in names)]
    for name in names[1:]:
        more = [first[one] - right[name][one] for one in first]
        low, high = (len(more) * end for end in bootstrap_interval(more))
        cells.append(f"{sum(more):+.0f} ({low:+.0f} to {high:+.0f})")
    return cells


def _values(rows: Iterable[Row], name: str, score: str) -> dict[tuple[str, str], float]:
    return {
        (row["conversation"], row["question"]): row["scores"][score]
        for row in rows
        if row["system"] == name and score in row["scores"]
    }


def _more(
    judged: Sequence[Row], answered: Sequence[Row], names: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Header and lines of the second table."""
    lines = []
    for name in names:
        f1 = _values(judged, name, "f1").values()
        tokens = [row["context_tokens"] for row in answered if row["system"] == name]
        failed = [row for row in judged if row["system"] == name and row["failures"]]
        means = [
            f"{sum(f1) / max(len(f1), 1):.3f}",
            f"{sum(tokens) / max(len(tokens), 1):.0f}",
        ]
        lines.append([name, *means, str(len(failed))])
    return ["system", "F1", "tokens of context, mean", "failed"], lines


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.by_hand", description=__doc__
    )
    made.add_argument("out", type=Path, help="folder of what is answered and judged")
    made.add_argument("--set", default="locomo", choices=sorted(LOADERS))
    made.add_argument("--data", type=Path, help="as `python -m benchmarks` takes it")
    made.add_argument(
        "--queue", type=Path, help="folder of the prompts; without it: the figures"
    )
    made.add_argument("--systems", default="ours,dense", help="with commas")
    made.add_argument("--limit", type=int, default=100, help="questions")
    made.add_argument(
        "--seed", type=int, default=SEED, help="of the sample and the orders"
    )
    made.add_argument("-k", type=int, default=60, help="messages shown at most")
    made.add_argument("--context-tokens", type=int, default=1_500)
    made.add_argument("--named", default="unnamed", help="who answers")
    made.add_argument("--judge-named", default="unnamed", help="who judges")
    options = made.parse_args(words)
    if options.queue and not options.data:
        made.error("--queue needs --data")
    return options


def _about(options: argparse.Namespace, data: DataSet) -> Row:
    return {
        "set": options.set,
        "data": fingerprint(data.files),
        "commit": commit(),
        "systems": options.systems.split(","),
        "questions": options.limit,
        "seed": options.seed,
        "k": options.k,
        "context_tokens": options.context_tokens,
        "answered by": options.named,
        "judged by": options.judge_named,
    }


def _calls(asked: Sequence[Prompt]) -> dict[str, int]:
    """Model calls that all contexts of a system took, of those that took any."""
    counted = Counter[str]()
    for prompt in asked:
        counted[prompt.system] += prompt.context.calls
    return dict(+counted)


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    options = _options(words)
    if options.queue:
        _run(options)
    print(report(options.out))


def _run(options: argparse.Namespace) -> None:
    data = LOADERS[options.set](options.data)
    about, tokens = _about(options, data), options.context_tokens
    chosen = sampled(data, options.limit, options.seed)
    with closing(
        cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
    ) as embeddings:
        shown = Shown(options.k, tokens, options.queue)
        asked = prompts(chosen, about["systems"], shown, embeddings, options.seed)
    if calls := _calls(asked):
        about["model calls"] = calls
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    answers, verdicts = Log(options.out / ANSWERS), Log(options.out / VERDICTS)
    answer_all(asked, options.queue, tokens, answers)
    judge_all(asked, options.queue, answers, verdicts, options.seed)


if __name__ == "__main__":
    main()
