"""One call of a model, structured or plain, with what it cost and what went wrong."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel

from langmem_graph.llm.structured_calls import Limits, ModelRunner, RunUsage
from langmem_graph.settings import Settings
from langmem_graph.tokens import token_counter

T = TypeVar("T", bound=BaseModel)


@dataclass
class Spent:
    """What something has cost."""

    seconds: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    problems: list[str] = field(default_factory=list)
    """What memory could not take in, and calls of its own model that gave nothing
    usable.
    """

    def plus(self, other: "Spent") -> "Spent":
        """The sum."""
        return Spent(
            *(
                a + b
                for a, b in zip(vars(self).values(), vars(other).values(), strict=True)
            )
        )


@dataclass
class Said:
    """What a model said, or None where it said nothing usable."""

    content: Any
    spent: Spent = field(default_factory=Spent)
    problems: list[str] = field(default_factory=list)


class Speaker:
    """Asks one chat model.

    Args:
        model: any LangChain chat model.
        method: of structured output, as `Settings.structured_method`.
        seconds: the time limit of a call in a schema.
    """

    def __init__(
        self, model: BaseChatModel, method: str | None = None, seconds: float = 180.0
    ) -> None:
        self.model = model
        self._method = method
        self._limits = Limits(calls=2, tokens=1_000_000, seconds=seconds)
        self._encoding = Settings().encoding

    def say(self, prompt: str, question: str) -> Said:
        """A plain text; an error of the model's is a problem and no text."""
        messages = [SystemMessage(prompt), HumanMessage(question)]
        try:
            answer = self.model.invoke(messages)
        except Exception as error:  # noqa: BLE001  # every provider raises errors of its own
            return Said(
                None, Spent(calls=1), [f"{type(error).__name__}: {error}"[:500]]
            )
        text = str(answer.text).strip()
        spent = self._spent(answer.usage_metadata, prompt + question, text)
        return Said(text or None, spent, [] if text else ["an empty answer"])

    def ask(
        self,
        schema: type[T],
        prompt: str,
        question: str,
        check: Callable[[T], str | None] = lambda _: None,
    ) -> Said:
        """An answer in a schema; asked for once more where it cannot be used."""
        usage = RunUsage()
        runner = ModelRunner(self.model, self._method, self._limits, self._encoding)
        answer = asyncio.run(runner.ask(schema, prompt, question, usage, check))
        spent = Spent(0.0, usage.calls, usage.input_tokens, usage.output_tokens)
        return Said(answer, spent, [] if answer is not None else usage.problems)

    def _spent(self, counted: Any, asked: str, said: str) -> Spent:
        if counted and counted.get("input_tokens"):
            return Spent(
                0.0, 1, counted["input_tokens"], counted.get("output_tokens") or 0
            )
        counter = token_counter(self._encoding)
        return Spent(0.0, 1, counter.count(asked), counter.count(said))


@lru_cache
def prompt_text(name: str) -> str:
    """A prompt of `prompts/`."""
    return (Path(__file__).parent / "prompts" / f"{name}.txt").read_text(
        encoding="utf-8"
    )
