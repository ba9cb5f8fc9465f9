"""Structured calls of a chat model: the request, the check, one repair, and what they
cost.

An answer is read into a schema, part by part (`forgiving_answers`), and then checked by
the step that asked. If nothing of it can be used even after one repair, the result is
None, and the step falls back to something safe. The prompts of all steps are files in
`prompts/`.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from math import inf
from time import monotonic, perf_counter
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableParallel, RunnableSequence
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ValidationError

from langmem_graph.errors import explain
from langmem_graph.llm.forgiving_answers import (
    LONGEST_ANSWER,
    Reply,
    read_reply,
    text_of,
)
from langmem_graph.reports import CallNote
from langmem_graph.server_urls import holds_password, shown_text
from langmem_graph.settings import Settings
from langmem_graph.threads import in_thread
from langmem_graph.tokens import TokenCounter, token_counter
from langmem_graph.tracing import labelled, span

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=BaseModel)
LONGEST_ERROR = 600
# characters of an unusable answer that the model is shown in the repair
LONGEST_SHOWN = 2_000
MOST_DROPPED = 50  # lines of `RunUsage.dropped`
_UNREACHABLE = re.compile(
    "Connect|Timeout|RateLimit|Auth|Permission|Unavailable|Internal|Overload"
)
"""Matches the names of errors that mean that the server gave no answer."""
_NO_THREADS = re.compile("cannot schedule new futures|can't (start|create) new thread")
"""Matches Python's messages where threads cannot be started, as in a process that is
ending.
"""
PURPOSES = {
    "Extraction": "extract",
    "Reconciliation": "reconcile",
    "Removal": "forget",
    "CausalPairs": "causal",
    "TopicRound": "topics",
    "ProfileText": "profile",
    "GoalPlan": "plan",
    "FurtherItems": "further",
    "Unification": "unify",
    "Consequences": "counterfactual",
    "GroundedAnswer": "answer",
    "ToolChoice": "select tool",
    "ToolFill": "fill",
}
"""What a call is for, by the schema of its answer; `other` for any other schema."""


@dataclass
class RunUsage:
    """What the model calls of a run have cost so far, and what went wrong."""

    calls: int = 0
    repairs: int = 0  # second calls after an unusable answer; they are part of `calls`
    input_tokens: int = 0
    output_tokens: int = 0
    # false if the server does not count tokens and they were estimated
    tokens_exact: bool = True
    milliseconds: float = 0.0
    unreachable: int = 0  # calls without an answer: no connection, permission or time
    problems: list[str] = field(default_factory=list)  # unusable answers, a line each
    # parts left out or cut; the first 50
    dropped: list[str] = field(default_factory=list)
    # a note of each call, in order
    calls_made: list[CallNote] = field(default_factory=list)

    def copy(self) -> "RunUsage":
        """A copy, to which calls can be added without changing this one."""
        return deepcopy(self)

    def add(self, other: "RunUsage") -> None:
        """Add what other calls have cost; the tokens are exact if those of both are."""
        for name, value in vars(other).items():
            if name != "tokens_exact":
                setattr(self, name, getattr(self, name) + value)
        self.tokens_exact = self.tokens_exact and other.tokens_exact
        self.dropped = self.dropped[:MOST_DROPPED]

    def __add__(self, other: "RunUsage") -> "RunUsage":
        """The sum of both."""
        both = self.copy()
        both.add(other)
        return both

    def counts(self) -> dict[str, Any]:
        """What the report of a recall says of it."""
        same = ("repairs", "input_tokens", "output_tokens", "problems", "dropped")
        return {"llm_calls": self.calls, **{name: getattr(self, name) for name in same}}

    def note_refused(self, schema: type[BaseModel], reasons: Sequence[str]) -> None:
        """Add to the note of the latest call for this schema what a step did not take
        of it.
        """
        for note in reversed(self.calls_made):
            if note.purpose == purpose_of(schema):
                note.refused.extend(reasons)
                return


@dataclass(frozen=True)
class Limits:
    """What a run may spend on model calls; once it is spent, no further call is
    made.
    """

    calls: int
    tokens: int
    seconds: float  # the time limit of a single call


class ModelRunner:
    """Asks one chat model for answers in a schema.

    Args:
        model: any LangChain chat model.
        method: how structured output is asked for (`json_schema`, `function_calling`,
            `json_mode`); None is the model's default. Servers differ in what they
            support.
        limits: calls, tokens and seconds.
        encoding: for counting tokens where the server does not.
    """

    def __init__(
        self, model: BaseChatModel, method: str | None, limits: Limits, encoding: str
    ) -> None:
        _prompts()  # reads the files now and not later, on an event loop
        self._model = model
        self.model_name = _name_of(model)
        self._method = {"method": method} if method else {}
        self._limits = limits
        self._encoding = encoding

    async def ask(
        self,
        schema: type[T],
        prompt: str,
        question: str,
        usage: RunUsage,
        check: Callable[[T], str | None] = lambda _: None,
        *,
        left: float = inf,
    ) -> T | None:
        """Ask for one answer; the result is None if it is unusable even after one
        repair.

        An answer of which some parts can be used is not repaired; `usage.dropped` names
        the others. A call without an answer in time is not made again.

        Args:
            schema: pydantic model; its strings and lists should have a maximum length.
            prompt: the step's rules, the same in every call.
            question: what differs from call to call.
            usage: the cost of the call is added to it.
            check: says what is wrong with an answer that fits the schema; None if
                nothing is.
            left: seconds that the run has left for the call and its repair.
        """
        ends = monotonic() + left
        messages: list[BaseMessage] = [SystemMessage(prompt), HumanMessage(question)]
        for attempt in range(2):
            seconds = min(ends - monotonic(), self._limits.seconds)
            if seconds <= 0 or self.is_spent(usage):
                usage.problems.append(f"{schema.__name__}: the budget is spent")
                return None
            reply = await self._noted_call(
                schema, messages, usage, check, seconds, repair=bool(attempt)
            )
            if reply.answer is not None or reply.is_late:
                return reply.answer
            messages = [*messages[:2], _repair(reply)]
        return None

    def is_spent(self, usage: RunUsage) -> bool:
        """Whether the limits allow no further call."""
        tokens = usage.input_tokens + usage.output_tokens
        return usage.calls >= self._limits.calls or tokens >= self._limits.tokens

    async def _noted_call(
        self,
        schema: type[T],
        messages: Sequence[BaseMessage],
        usage: RunUsage,
        check: Callable[[T], str | None],
        seconds: float,
        *,
        repair: bool,
    ) -> Reply[T]:
        """Make one call, and add its cost, its note and what is to be reported to the
        usage.
        """
        at = datetime.now(UTC)
        spent = RunUsage(calls=1, repairs=int(repair))
        try:
            with span("model", answer=schema.__name__, repair=repair) as noting:
                read = await self._once(schema, messages, spent, seconds)
                noting.note(
                    input_tokens=spent.input_tokens, usable=read.answer is not None
                )
                noting.note(output_tokens=spent.output_tokens)
            reply = read.checked(check)
            spent.calls_made.append(self._note(schema, reply, spent, at))
            if reply.answer is None:
                spent.problems.append(
                    f"{schema.__name__}: {reply.in_full()[:LONGEST_ERROR]}"
                )
            else:
                spent.dropped = [f"{schema.__name__}: {line}" for line in reply.refused]
            return reply
        finally:
            usage.add(spent)

    def _note(
        self, schema: type[T], reply: Reply[T], spent: RunUsage, at: datetime
    ) -> CallNote:
        counted = ("input_tokens", "output_tokens", "tokens_exact", "milliseconds")
        return CallNote(
            purpose=purpose_of(schema),
            model=self.model_name,
            repair=bool(spent.repairs),
            problem=reply.problem and reply.problem[:LONGEST_ERROR],
            refused=reply.refused[:MOST_DROPPED],
            at=at,
            **{name: getattr(spent, name) for name in counted},
        )

    async def _once(
        self,
        schema: type[T],
        asked: Sequence[BaseMessage],
        spent: RunUsage,
        seconds: float,
    ) -> Reply[T]:
        start = perf_counter()
        try:
            asks: Any = self._model.with_structured_output(
                schema, include_raw=True, **self._method
            )
            invoke = _messages_of(asks).invoke
            call = in_thread(invoke, list(asked), labelled(schema.__name__))
            answer: Any = await asyncio.wait_for(call, seconds)
        except TimeoutError:
            spent.unreachable += 1
            await self._count(spent, None, schema, asked)
            late = f"no answer within {seconds:.0f} seconds"
            return Reply(problem=late, is_late=True)
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            spent.unreachable += _is_unreachable(error)
            await self._count(spent, None, schema, asked)
            if isinstance(error, ValidationError):
                detail = explain(error)
            else:
                detail = shown_text(error)
            return Reply(problem=type(error).__name__, detail=detail)
        finally:
            spent.milliseconds += (perf_counter() - start) * 1_000
        if isinstance(answer, AIMessage):
            called = [call["args"] for call in answer.tool_calls]
            answer = {"raw": answer, "parsed": next(iter(called), None)}
        elif not (isinstance(answer, dict) and "parsed" in answer):
            answer = {"raw": None, "parsed": answer}
        await self._count(spent, answer.get("raw"), schema, asked)
        # in a thread: other calls need not wait while a long answer is read
        return await in_thread(read_reply, schema, answer)

    async def _count(
        self,
        spent: RunUsage,
        raw: Any,
        schema: type[BaseModel],
        messages: Sequence[BaseMessage],
    ) -> None:
        counted = getattr(raw, "usage_metadata", None)
        if isinstance(counted, dict) and counted.get("input_tokens"):
            spent.input_tokens += counted["input_tokens"]
            spent.output_tokens += counted.get("output_tokens") or 0
            return
        counter = await in_thread(token_counter, self._encoding)  # may load its table
        spent.tokens_exact = False
        spent.input_tokens += prompt_tokens(counter, schema, messages)
        spent.output_tokens += counter.count(text_of(raw)[:LONGEST_ANSWER])


def model_runner(
    model: BaseChatModel, settings: Settings, purpose: Literal["extraction", "recall"]
) -> ModelRunner:
    """The runner of a graph, with the limits that the settings give its purpose."""
    group = settings.extraction if purpose == "extraction" else settings.reasoning
    limits = Limits(group.max_calls, group.max_tokens, group.call_seconds)
    return ModelRunner(model, settings.structured_method, limits, settings.encoding)


def _is_unreachable(error: Exception) -> bool:
    """Whether trying again later may help; providers use similar names for such
    errors.
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, RuntimeError) and _NO_THREADS.search(str(error)):
        return True
    return isinstance(error, OSError) or any(map(_UNREACHABLE.search, names))


def _messages_of(structured: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """The chat model within a structured model of LangChain's; another one as it is.

    LangChain's own calls the chat model in a thread pool, and at its exit Python waits
    for the threads of pools: a call that never returned would keep the process alive.
    Its reader of JSON takes quadratic time in the length of a malformed text.
    """
    if not isinstance(structured, RunnableSequence):
        return structured
    first = structured.first
    if not isinstance(first, RunnableParallel) or set(first.steps__) != {"raw"}:
        return structured
    return first.steps__["raw"]


def purpose_of(schema: type[BaseModel]) -> str:
    """What a call is for whose answer has this schema."""
    return PURPOSES.get(schema.__name__, "other")


def _name_of(model: BaseChatModel) -> str:
    """The name of the model as its class gives it, else the name of the class."""
    given = (getattr(model, name, None) for name in ("model_name", "model"))
    texts = (name for name in given if isinstance(name, str) and name)
    # a server's URL may be the name of its model
    named = (text for text in texts if not holds_password(text))
    return next(named, type(model).__name__)


def prompt_tokens(
    counter: TokenCounter, schema: type[BaseModel], messages: Sequence[BaseMessage]
) -> int:
    """How many tokens a call sends, with schema and messages."""
    return counter.count(_as_sent(schema)) + sum(
        counter.count(str(m.content)) for m in messages
    )


@lru_cache(maxsize=100)
def _as_sent(schema: type[BaseModel]) -> str:
    return json.dumps(convert_to_openai_tool(schema), ensure_ascii=False)


def _repair(reply: Reply[T]) -> HumanMessage:
    """The request to answer again; the unusable answer is shown as data."""
    why = str(reply.problem) if reply.text else reply.in_full()
    shown = json.dumps(reply.text[:LONGEST_SHOWN], ensure_ascii=False)
    prompt = load_prompt("repair")
    return HumanMessage(prompt.format(problem=why[:LONGEST_ERROR], answer=shown))


def load_prompt(name: str) -> str:
    """The text of the prompt file of this name, without its ending."""
    return _prompts()[name]


@lru_cache
def _prompts() -> dict[str, str]:
    folder = files("langmem_graph.llm") / "prompts"
    return {
        file.name.removesuffix(".txt"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".txt")
    }
