"""From a question and what memory gave to an answer, the same for every system.

The navigate reader looks through our memory with tools instead of reading a context
that was put together for it.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any, Literal

from pydantic import BaseModel, Field

from benchmarks.data.items import Question
from benchmarks.models import Said, Speaker, Spent, prompt_text
from langmem_graph.memory import UserMemory
from langmem_graph.navigation.rollouts import run_navigator
from langmem_graph.results import SearchBy
from langmem_graph.retrieval.quoted_context import as_data
from langmem_graph.settings import Settings
from langmem_graph.tokens import token_counter

LETTERS = "ABCDEFGHIJ"
_LETTER = re.compile(
    r"\W*(?:option\s+)?([A-J])(?:\W*|\s*[:.)].*)", re.IGNORECASE | re.DOTALL
)
LONGEST = 2_000
"""Characters that are quoted of one passage."""


@dataclass(frozen=True)
class Passage:
    """Something that a system found: its id, and the text that a model reads."""

    id: str
    text: str
    at: str = ""
    session_id: str = ""


@dataclass(frozen=True)
class Context:
    """What a model is shown of memory."""

    text: str
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    left_out: int = 0
    """Passages for which there was no room."""
    calls: int = 0
    """Model calls that it took to make it."""


@dataclass
class Reply:
    """What a system answered, and how it came to it."""

    text: str = ""
    choice: str = ""
    """The option that was chosen."""
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    shown_ids: list[str] = field(default_factory=list)
    left_out: int = 0
    spent: Spent = field(default_factory=Spent)
    problems: list[str] = field(default_factory=list)
    graph: dict[str, float] = field(default_factory=dict)
    """Of a sweep over edges: the mean degree, and the facts that edges brought."""
    failed: bool = False
    """Nothing usable came back; the answer counts as wrong."""
    navigation: dict[str, Any] | None = None
    """Of a navigating reader: a `Navigation` without its messages."""

    def as_dict(self) -> dict[str, Any]:
        """JSON-shaped."""
        return asdict(self)


class Chosen(BaseModel):
    """The letter of an option."""

    letter: Literal["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"]


class Filled(BaseModel):
    """A tool call."""

    name: str = Field(max_length=200)
    arguments: str = Field(
        max_length=8_000, description="The arguments, a JSON object as text."
    )


class Picked(BaseModel):
    """The tool that a request is for."""

    name: str = Field(max_length=200)


class ContextReader:
    """Answers in one call from a context.

    Args:
        speaker: the model.
        tokens: most that is quoted of memory, the same for every system.
        by: whether systems give it messages or whole sessions.
        longest: characters that are quoted of one passage, None for all.
    """

    name = "context"

    def __init__(
        self,
        speaker: Speaker,
        tokens: int,
        by: SearchBy = "message",
        longest: int | None = LONGEST,
    ) -> None:
        self.speaker = speaker
        self.tokens, self.by, self.longest = tokens, by, longest

    def read_passages(self, question: Question, passages: Sequence[Passage]) -> Reply:
        """Quote the passages in the order of their rank, as far as there is room, and
        answer.
        """
        return self.read(question, quoted(passages, self.tokens, longest=self.longest))

    def read(self, question: Question, context: Context) -> Reply:
        """Answer."""
        start = perf_counter()
        reply = self._reply(question, context)
        reply.spent.seconds = perf_counter() - start
        reply.shown, reply.shown_ids = [question.text, *context.texts], context.ids
        reply.left_out = context.left_out
        return reply

    def _reply(self, question: Question, context: Context) -> Reply:
        asked = _asked(question, context)
        if question.goal is not None:
            return self._call(question, asked)
        if question.options:
            return self._choose(question, asked)
        free = question.rule in ("act", "preference", "reply")
        said = self.speaker.say(prompt_text("reply" if free else "answer"), asked)
        return _reply(said, text=said.content or "")

    def pick(self, question: Question, context: Context) -> Said:
        """The tool among those offered that the request is for, without its
        arguments.
        """
        tools = {one.name: one for one in question.tools}
        lines = [json.dumps(one.as_function()["function"]) for one in tools.values()]
        said = self.speaker.ask(
            Picked,
            prompt_text("pick"),
            "\n".join([_asked(question, context), "Tools:", *lines]),
            lambda one: (
                None if one.name in tools else f"name one of {', '.join(tools)}"
            ),
        )
        said.content = tools[said.content.name] if said.content else None
        return said

    def _choose(self, question: Question, asked: str) -> Reply:
        letters = LETTERS[: len(question.options)]
        said = self.speaker.ask(
            Chosen,
            prompt_text("choose"),
            "\n".join([asked, *_options(question)]),
            lambda one: None if one.letter in letters else f"give one of {letters}",
        )
        if said.content is None:
            return _reply(said)
        return _reply(said, choice=question.options[letters.index(said.content.letter)])

    def _call(self, question: Question, asked: str) -> Reply:
        tools = [
            json.dumps(one.as_function()["function"], ensure_ascii=False)
            for one in question.tools
        ]
        title = "Tool" if len(tools) == 1 else "Tools, of which one is right"
        offered = "\n".join([f"{title}: {tools[0]}", *tools[1:]])
        said = self.speaker.ask(
            Filled, prompt_text("call"), f"{asked}\n{offered}", _no_object
        )
        if said.content is None:
            return _reply(said)
        return _reply(
            said, tool=said.content.name, arguments=json.loads(said.content.arguments)
        )


class NavigateReader(ContextReader):
    """Looks through our memory with its tools, at most four rounds, and answers.

    Other systems have no such tools and are read by their context.
    """

    name = "navigate"
    budget = 4

    def navigate(self, user: UserMemory, question: Question) -> Reply:
        """Answer by navigating."""
        start = perf_counter()
        asked = (
            f"{question.text} (asked at {question.at})"
            if question.at
            else question.text
        )
        if question.options:
            rule = "The answer is the letter of the option that fits this user best."
            asked = "\n".join([asked, *_options(question), rule])
        done = run_navigator(self.speaker.model, user, asked, budget=self.budget)
        calls = done.turns + (done.finish != "token_limit")  # the one that ended it
        spent = Spent(
            perf_counter() - start, calls, done.input_tokens, done.output_tokens
        )
        choice = _chosen(done.answer, question.options)
        usable = choice if question.options else done.answer
        return Reply(
            text=done.answer,
            choice=choice,
            shown=[
                question.text,
                *(m["content"] for m in done.messages if m["role"] == "tool"),
            ],
            shown_ids=sorted(done.shown),
            spent=spent,
            navigation=done.model_dump(mode="json", exclude={"messages"}),
            failed=not usable,
            problems=done.problems
            if usable
            else [*done.problems, f"{done.finish}, no answer"],
        )


def whole_sessions(found: Sequence[Passage], said: Sequence[Passage]) -> list[Passage]:
    """The sessions that were found, each with all that was said in it.

    Args:
        found: sessions, best first.
        said: messages in order.
    """
    lines: dict[str, list[str]] = {}
    for one in said:
        lines.setdefault(one.session_id, []).append(one.text)
    return [replace(one, text="\n".join(lines[one.session_id])) for one in found]


def quoted(
    passages: Sequence[Passage],
    tokens: int,
    *,
    longest: int | None = LONGEST,
    last: bool = False,
) -> Context:
    """The passages by rank, each that still fits, shown in the order of their dates.

    Args:
        passages: best first.
        tokens: room for all of them.
        longest: characters of one passage, None for all.
        last: they are ranked by what was said last, which then also orders those of one
            date.
    """
    counter = token_counter(Settings().encoding)
    kept: list[tuple[Passage, str]] = []
    for passage in passages:
        cut = replace(passage, text=passage.text[:longest])
        line = f"[{cut.at[:10] or 'no date'}] {as_data(cut.text)}"
        cost = counter.count(line)
        if cost <= tokens:
            tokens -= cost
            kept.append((cut, line))
    ordered = sorted(kept[::-1] if last else kept, key=lambda one: one[0].at)
    return Context(
        "\n".join(line for _, line in ordered),
        [passage.id for passage, _ in kept],
        [passage.text for passage, _ in kept],
        len(passages) - len(kept),
    )


def _asked(question: Question, context: Context) -> str:
    now = f"Now: {question.at}\n" if question.at else ""
    remembered = context.text or "(nothing)"
    return f"{now}Remembered:\n{remembered}\n\nThe user says: {as_data(question.text)}"


def _options(question: Question) -> list[str]:
    options = zip(LETTERS[: len(question.options)], question.options, strict=True)
    return ["Options:", *(f"{letter}: {as_data(text)}" for letter, text in options)]


def _chosen(answer: str, options: Sequence[str]) -> str:
    """The option whose letter was said; empty where there is none."""
    said = _LETTER.fullmatch(answer.strip())
    place = LETTERS.index(said[1].upper()) if said else len(options)
    return options[place] if place < len(options) else ""


def _no_object(filled: Filled) -> str | None:
    try:
        read = json.loads(filled.arguments)
    except ValueError as error:
        return f"arguments is not JSON: {error}"
    return None if isinstance(read, dict) else "arguments must be a JSON object"


def _reply(said: Said, **fields: Any) -> Reply:
    return Reply(
        spent=said.spent, problems=said.problems, failed=said.content is None, **fields
    )
