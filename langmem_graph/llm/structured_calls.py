"""Structured calls of a chat model: the request, the check, one repair, and what they cost.

An answer is parsed into a schema and then checked by the step that asked. If it cannot be used even
after one repair, the result is None, and the step falls back to something safe. The prompts of all
steps are files in `prompts/`.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from time import perf_counter
from typing import Any, Literal, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ValidationError

from langmem_graph.errors import explain
from langmem_graph.runtime import in_own_thread
from langmem_graph.settings import Settings
from langmem_graph.tokens import TokenCounter, token_counter
from langmem_graph.tracing import labelled, span

_log = logging.getLogger(__name__)
T = TypeVar("T", bound=BaseModel)
LONGEST_ANSWER = 60_000
"""Characters of a raw answer; a longer one is a repetition loop and is not sent back."""
LONGEST_ERROR = 600
_UNREACHABLE = re.compile("Connect|Timeout|RateLimit|Auth|Permission|Unavailable|Internal|Overload")
"""Matches the names of errors that mean that the server gave no answer."""


@dataclass
class Usage:
    """What model calls have cost so far, and what went wrong."""

    calls: int = 0
    repairs: int = 0
    """Second calls after an unusable answer; they are part of `calls`."""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_exact: bool = True
    """False if the server does not count tokens and they were estimated."""
    milliseconds: float = 0.0
    unreachable: int = 0
    """Calls without an answer: no connection, time-out, no permission, or too many requests."""
    problems: list[str] = field(default_factory=list)
    """Answers that could not be used, one line each."""

    def as_dict(self) -> dict[str, Any]:
        """As a JSON object, for reports and graph state."""
        return dict(vars(self), problems=list(self.problems))

    def copy(self) -> "Usage":
        """A copy, to which calls can be added without changing this one."""
        return Usage(**self.as_dict())

    def __add__(self, other: "Usage") -> "Usage":
        """The sum of both; its tokens are exact if those of both are."""
        return Usage(
            calls=self.calls + other.calls,
            repairs=self.repairs + other.repairs,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            tokens_exact=self.tokens_exact and other.tokens_exact,
            milliseconds=self.milliseconds + other.milliseconds,
            unreachable=self.unreachable + other.unreachable,
            problems=[*self.problems, *other.problems],
        )

    @classmethod
    def of(cls, counted: dict[str, Any] | None) -> "Usage":
        """The usage that `as_dict` wrote."""
        return cls(**(counted or {}))


@dataclass(frozen=True)
class Limits:
    """What a run may spend on model calls; once it is spent, no further call is made."""

    calls: int
    tokens: int
    seconds: float
    """The time limit of a single call."""


class ModelRunner:
    """Asks one chat model for answers in a schema.

    Args:
        model: any LangChain chat model.
        method: how structured output is asked for (`json_schema`, `function_calling`, `json_mode`);
            None is the model's default. Servers differ in what they support.
        limits: calls, tokens and seconds.
        encoding: for counting tokens where the server does not.
    """

    def __init__(
        self, model: BaseChatModel, method: str | None, limits: Limits, encoding: str
    ) -> None:
        _prompts()  # reads the files now and not later, on an event loop
        self._model = model
        self._method = {"method": method} if method else {}
        self._limits = limits
        self._encoding = encoding

    async def ask(
        self,
        schema: type[T],
        prompt: str,
        question: str,
        usage: Usage,
        check: Callable[[T], str | None] = lambda _: None,
    ) -> T | None:
        """Ask for one answer; the result is None if it is unusable even after one repair.

        Args:
            schema: pydantic model; its strings and lists should have a maximum length.
            prompt: the system message: the step's rules, the same in every call.
            question: the user message, which differs from call to call.
            usage: the cost of the call is added to it.
            check: says what is wrong with an answer that fits the schema; None if nothing is.
        """
        messages: list[BaseMessage] = [SystemMessage(prompt), HumanMessage(question)]
        for attempt in range(2):
            if self.is_spent(usage):
                usage.problems.append(f"{schema.__name__}: the budget is spent")
                return None
            usage.repairs += attempt
            with span("model", answer=schema.__name__, repair=bool(attempt)) as noting:
                before = usage.input_tokens, usage.output_tokens
                answer, problem = await self._once(schema, messages, usage)
                noting.note(input_tokens=usage.input_tokens - before[0], usable=answer is not None)
                noting.note(output_tokens=usage.output_tokens - before[1])
            problem = problem or (check(answer) if answer is not None else None)
            if answer is not None and problem is None:
                return answer
            usage.problems.append(f"{schema.__name__}: {str(problem)[:LONGEST_ERROR]}")
            messages = [*messages[:2], _repair(str(problem))]
        return None

    def is_spent(self, usage: Usage) -> bool:
        """Whether the limits allow no further call."""
        tokens = usage.input_tokens + usage.output_tokens
        return usage.calls >= self._limits.calls or tokens >= self._limits.tokens

    async def _once(
        self, schema: type[T], messages: Sequence[BaseMessage], usage: Usage
    ) -> tuple[T | None, str | None]:
        start = perf_counter()
        usage.calls += 1
        try:
            structured = self._model.with_structured_output(
                schema, include_raw=True, **self._method
            )
            config = labelled(schema.__name__)
            call = in_own_thread(lambda: structured.invoke(list(messages), config))
            answer: Any = await asyncio.wait_for(call, self._limits.seconds)
        except TimeoutError:
            usage.unreachable += 1
            await self._count(usage, None, schema, messages)
            return None, f"no answer within {self._limits.seconds:.0f} seconds"
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            usage.unreachable += _is_unreachable(error)
            await self._count(usage, None, schema, messages)
            return None, f"{type(error).__name__}: {error}"
        finally:
            usage.milliseconds += (perf_counter() - start) * 1_000
        if not isinstance(answer, dict):
            answer = {"raw": None, "parsed": answer}
        await self._count(usage, answer.get("raw"), schema, messages)
        return _parsed(schema, answer)

    async def _count(
        self, usage: Usage, raw: Any, schema: type[BaseModel], messages: Sequence[BaseMessage]
    ) -> None:
        counted = getattr(raw, "usage_metadata", None)
        if isinstance(counted, dict) and counted.get("input_tokens"):
            usage.input_tokens += counted["input_tokens"]
            usage.output_tokens += counted.get("output_tokens") or 0
            return
        counter = await asyncio.to_thread(token_counter, self._encoding)  # may load its table
        usage.tokens_exact = False
        usage.input_tokens += prompt_tokens(counter, schema, messages)
        usage.output_tokens += counter.count(str(getattr(raw, "content", ""))[:LONGEST_ANSWER])


def model_runner(
    model: BaseChatModel, settings: Settings, purpose: Literal["extraction", "recall"]
) -> ModelRunner:
    """The runner of a graph, with the limits that the settings give its purpose.

    Args:
        model: any LangChain chat model.
        settings: the memory's settings.
        purpose: `extraction` reads messages, `recall` answers a request.
    """
    group = settings.extraction if purpose == "extraction" else settings.reasoning
    limits = Limits(group.max_calls, group.max_tokens, group.call_seconds)
    return ModelRunner(model, settings.structured_method, limits, settings.encoding)


def _is_unreachable(error: Exception) -> bool:
    """Whether trying again later may help; providers use similar names for such errors."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return isinstance(error, OSError) or any(map(_UNREACHABLE.search, names))


def _parsed(schema: type[T], answer: Any) -> tuple[T | None, str | None]:
    raw = str(getattr(answer.get("raw"), "content", ""))
    if len(raw) > LONGEST_ANSWER:
        return None, f"the answer has {len(raw):,} characters; answer briefly"
    parsed = answer.get("parsed")
    if isinstance(parsed, dict):
        try:
            parsed = schema.model_validate(parsed)
        except ValidationError as problem:
            return None, f"not in the schema: {explain(problem)}"
    if isinstance(parsed, schema):
        return parsed, None
    error = answer.get("parsing_error")
    why = explain(error) if isinstance(error, ValidationError) else str(error or "")[:200]
    return None, f"not in the schema: {why or raw[:200] or 'no answer'}"


def prompt_tokens(
    counter: TokenCounter, schema: type[BaseModel], messages: Sequence[BaseMessage]
) -> int:
    """How many tokens a call sends, with schema and messages."""
    shape = json.dumps(convert_to_openai_tool(schema), ensure_ascii=False)  # as it is sent
    return counter.count(shape) + sum(counter.count(str(m.content)) for m in messages)


def _repair(problem: str) -> HumanMessage:
    return HumanMessage(load_prompt("repair").format(problem=problem[:LONGEST_ERROR]))


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
