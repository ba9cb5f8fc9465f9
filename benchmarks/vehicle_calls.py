"""VehicleMemBench's tool calls, filled by memory and from the nearest messages.

    python -m benchmarks.vehicle_calls OUT --data DIR --queue Q --named NAME
    python -m benchmarks.vehicle_calls OUT

The first has every call of the histories in DIR filled twice by whoever answers the
folders `Q/memory` and `Q/nearest`: by `ground`, with the history as memory, and by one
call that is shown the request and the messages whose vectors are nearest to it. The
second prints the figures of what was answered. Both fill the call that is right: which
tool a request needs is for the agent to know. DIR holds the data set's `history` and
`qa_data`, and its `functions_schema.json`. What is kept holds ids and verdicts, and
nothing of the data set.
"""

import argparse
import ast
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.embeddings import Embeddings

from benchmarks import common
from benchmarks.data.items import Conversation, Question, ToolGoal
from benchmarks.data.vehiclemem import load_vehiclemem
from benchmarks.job import commit
from benchmarks.log import Row
from benchmarks.metrics.statistics import bootstrap_interval
from benchmarks.metrics.tool_calls import same_value
from benchmarks.models import Speaker
from benchmarks.queue_model import Queue, QueueModel
from benchmarks.readers import ContextReader, Passage
from benchmarks.systems.baselines import NaiveRag
from benchmarks.unseen import PATIENT
from benchmarks.vectors import cached
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory
from langmem_graph.testing import ScriptedChatModel

NEAREST = 10  # messages that the other arm is shown
CALLS, ABOUT = "calls.jsonl", "about.json"


@dataclass(frozen=True)
class CarCall:
    """One call that a request should lead to."""

    history: str
    question: Question
    number: int
    tool: ToolGoal
    gold: dict[str, Any]

    @property
    def tag(self) -> str:
        """Names it in the queue and in the rows."""
        return f"{self.history}-{self.question.id}-{self.number}"


def calls_of(talk: Conversation, tools: dict[str, ToolGoal]) -> Iterator[CarCall]:
    """The right calls of all requests of one history."""
    for question in talk.questions:
        for number, line in enumerate(question.answer.splitlines(), 1):
            name, gold = _read_call(line)
            yield CarCall(talk.name, question, number, tools[name], gold)


def _read_call(line: str) -> tuple[str, dict[str, Any]]:
    """`name(a=1, b=true)`, with the constants of JSON or of Python."""
    call = ast.parse(line.strip(), mode="eval").body
    assert isinstance(call, ast.Call), line
    assert isinstance(call.func, ast.Name), line
    constants = {"true": True, "false": False, "null": None}
    values = dict[str, Any]()
    for keyword in call.keywords:
        node = keyword.value
        assert keyword.arg is not None, line
        is_constant = isinstance(node, ast.Name) and node.id in constants
        values[keyword.arg] = (
            constants[ast.unparse(node)] if is_constant else ast.literal_eval(node)
        )
    return call.func.id, values


def read_tools(file: Path) -> dict[str, ToolGoal]:
    """The car's functions by their names."""
    functions = json.loads(file.read_text(encoding="utf-8"))
    return {
        each["name"]: ToolGoal(
            each["name"], each["description"], each["parameters"], ()
        )
        for each in functions
    }


def fill(place: Path, talk: Conversation, embeddings: Embeddings) -> None:
    """Add the history; its messages count as read, and nothing was recorded of them."""
    with Memory(place, embeddings=embeddings, model=ScriptedChatModel()) as memory:
        user = memory.user("car")
        for session in talk.sessions:
            user.add(session.messages, session_id=session.session_id)
        user.flush()


def by_memory(place: Path, call: CarCall, queue: Path, embeddings: Embeddings) -> Row:
    """The arguments that `ground` sends."""
    model = QueueModel(queue=Queue(queue / "memory"), tag=call.tag)
    with Memory(
        place, embeddings=embeddings, model=model, settings=PATIENT, read_only=True
    ) as memory:
        filled = memory.user("car").ground(
            call.tool.as_function(), call.question.text, at=call.question.at
        )
    return {"arguments": filled.arguments, "calls": filled.llm_calls}


def by_nearest(call: CarCall, nearest: Sequence[Passage], queue: Path) -> Row:
    """The arguments that the same model gives, shown the messages nearest by vector."""
    model = QueueModel(queue=Queue(queue / "nearest"), tag=call.tag)
    reader = ContextReader(
        Speaker(model, seconds=PATIENT.embed_seconds), tokens=100_000
    )
    asked = Question(
        id=call.tag, text=call.question.text, at=call.question.at, goal=call.tool
    )
    reply = reader.read_passages(asked, nearest)
    return {"arguments": reply.arguments, "calls": reply.spent.calls}


def run(options: argparse.Namespace, embeddings: Embeddings) -> list[Row]:
    """Every call, filled in both ways; all of them wait at the same time."""
    tools = read_tools(options.data / "functions_schema.json")
    talks = load_vehiclemem(options.data).conversations
    with TemporaryDirectory() as place, ThreadPoolExecutor(300) as pool:
        asked = []
        for talk in talks:
            memory = Path(place) / talk.name
            fill(memory, talk, embeddings)
            plain = NaiveRag(embeddings)
            for session in talk.sessions:
                plain.add(session)
            for call in calls_of(talk, tools):
                nearest = plain.search(call.question.text, NEAREST, "message")
                ours = pool.submit(by_memory, memory, call, options.queue, embeddings)
                other = pool.submit(by_nearest, call, nearest, options.queue)
                asked.append((call, ours, other))
        return [
            _row(call, ours.result(), other.result()) for call, ours, other in asked
        ]


def _row(call: CarCall, memory: Row, nearest: Row) -> Row:
    arms = {"memory": memory, "nearest": nearest}
    verdicts = {name: verdict(call.gold, **given) for name, given in arms.items()}
    about = {"history": call.history, "question": call.question.id}
    return {**about, "number": call.number, "kind": call.question.category, **verdicts}


def verdict(gold: Row, arguments: Row, calls: int) -> Row:
    """Whether all arguments are the right ones and no others, and whether one of those
    that are sent is another one.
    """
    same = {name: same_value(gold.get(name), arguments[name]) for name in arguments}
    return {
        "right": arguments.keys() == gold.keys() and all(same.values()),
        "wrong": any(name in gold and not same[name] for name in arguments),
        "calls": calls,
    }


def report(folder: Path) -> str:
    """The figures of what was answered."""
    lines = (folder / CALLS).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    requests = [
        list(own)
        for _, own in groupby(rows, key=lambda row: (row["history"], row["question"]))
    ]
    arms = ("memory", "nearest")
    exact = {
        arm: [all(row[arm]["right"] for row in own) for own in requests] for arm in arms
    }
    wrong = {
        arm: [any(row[arm]["wrong"] for row in own) for own in requests] for arm in arms
    }
    calls = {arm: [row[arm]["calls"] for row in rows] for arm in arms}
    table = common.table(
        [f"{len(requests)} requests, {len(rows)} calls", *arms],
        [
            ["all arguments right", *(f"{sum(exact[arm])}" for arm in arms)],
            ["a wrong argument sent", *(f"{sum(wrong[arm])}" for arm in arms)],
            ["model calls", *(f"{fmean(calls[arm]):.2f}" for arm in arms)],
        ],
    )
    pairs = zip(exact["memory"], exact["nearest"], strict=True)
    more = [float(ours) - float(other) for ours, other in pairs]
    low, high = (len(more) * end for end in bootstrap_interval(more))
    looked = [row for row in rows if row["memory"]["calls"] > 1]
    helped = sum(row["memory"]["right"] for row in looked)
    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    return "\n".join(
        [
            table,
            "",
            f"memory more than nearest: {sum(more):+.0f} ({low:+.0f} to {high:+.0f})",
            f"second looks: {len(looked)}, of which {helped} calls were right",
            *(f"{name}: {value}" for name, value in about.items()),
        ]
    )


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.vehicle_calls", description=__doc__
    )
    made.add_argument("out", type=Path, help="folder of what was answered")
    made.add_argument("--data", type=Path, help="folder of the data set")
    made.add_argument(
        "--queue", type=Path, help="folder of the prompts; without it: the figures"
    )
    made.add_argument("--named", default="unnamed", help="who answers")
    options = made.parse_args(words)
    if options.queue and not options.data:
        made.error("--queue needs --data")
    if options.queue:
        with closing(
            cached(MiniLMEmbeddings(), common.OUTPUT / "vectors.sqlite")
        ) as embeddings:
            rows = run(options, embeddings)
        options.out.mkdir(parents=True, exist_ok=True)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (options.out / CALLS).write_text(text, encoding="utf-8")
        about = {"answered by": options.named, "commit": commit()}
        (options.out / ABOUT).write_text(json.dumps(about), encoding="utf-8")
    common.console.print(report(options.out))


if __name__ == "__main__":
    main()
