"""A chat model that replays the recorded answers of another one; `demo.py` runs with
it.

A recording is a JSON file: who answered, on which day, and each prompt with its answer.
"""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

CHAT = "chat"
"""The kind of a prompt that asks for no schema; others have the name of their
schema.
"""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WHOLE_LINE = re.compile(r"^(?: {4}|Request: )(.+)$", re.MULTILINE)
_ALIASED = re.compile(r"^([a-z]\d+)\b(.*)$", re.MULTILINE)


class UnknownPromptError(LookupError):
    """The recording has no answer to a prompt."""


class RecordedChatModel(BaseChatModel):
    """Replays the answers of a recording, or asks a model and records what it answers.

    A prompt is known by its kind and the texts that it shows: what was said, what is
    remembered, and the request. Rules, dates, ids and the order of facts may differ.
    The aliases in an answer are replaced by those that now stand before the same texts.

    Args:
        file: the recording.
        asks: a model whose answers are recorded anew; see `save`.

    Attributes:
        recording: the content of the file.
        unknown: prompts without an answer. Memory goes on where its model fails, so
            call `check`.
        changed: kinds of prompts whose rules or schema are others than those that were
            answered.
    """

    file: Path
    asks: BaseChatModel | None = None
    recording: dict[str, Any] = Field(default_factory=lambda: {"answers": []})
    unknown: list[str] = Field(default_factory=list)
    changed: set[str] = Field(default_factory=set)

    def model_post_init(self, _: Any) -> None:
        """Read the file, unless a new recording begins."""
        if self.asks is None:
            self.recording = json.loads(self.file.read_text(encoding="utf-8"))

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @property
    def model_name(self) -> str:
        """Who answered; memory notes it with every call."""
        return str(self.recording.get("answered_by", "recording"))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        text = self._answer(
            CHAT, messages, None, lambda model: model.invoke(messages).text
        )
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **_: Any
    ) -> Runnable[Any, Any]:
        """A runnable whose answers have this schema, a pydantic class."""

        def answer(messages: list[BaseMessage]) -> Any:
            def ask(model: BaseChatModel) -> Any:
                read: Any = model.with_structured_output(schema).invoke(messages)
                return read.model_dump(mode="json", exclude_defaults=True)

            form = schema.model_json_schema()
            given = self._answer(schema.__name__, messages, form, ask)
            parsed, raw = schema.model_validate(given), AIMessage(json.dumps(given))
            whole = {"raw": raw, "parsed": parsed, "parsing_error": None}
            return whole if include_raw else parsed

        return RunnableLambda(answer)

    def _answer(
        self,
        kind: str,
        messages: Sequence[BaseMessage],
        form: Any,
        ask: Callable[[BaseChatModel], Any],
    ) -> Any:
        """The recorded answer; while recording, the model's where the prompt is a new
        one.
        """
        rules = _rules(
            [message.text for message in messages if message.type == "system"], form
        )
        texts = [message.text for message in messages if message.type != "system"]
        question, shown = "\n\n".join(texts), texts_shown(kind, texts)
        answers = self.recording["answers"]
        known = next(
            (a for a in answers if a["kind"] == kind and a["shown"] == shown), None
        )
        if known is None and self.asks is not None:
            prompt = {
                "kind": kind,
                "rules": rules,
                "shown": shown,
                "question": question,
            }
            try:
                known = {**prompt, "answer": ask(self.asks)}
            except Exception:
                self.unknown.append(f"{kind}:\n{question}")
                raise
            answers.append(known)
        if known is None:
            self.unknown.append(f"{kind}:\n{question}")
            raise UnknownPromptError(self._explained())
        if known["rules"] != rules:
            self.changed.add(kind)
        return _with_aliases(known["answer"], known["question"], question)

    def _explained(self) -> str:
        why = (
            f"{self.file.name} has no answer to a prompt of this run: what prompts "
            "show has "
            "changed since it was recorded. Record it again: python examples/demo.py "
            "--help."
        )
        if self.asks is not None:
            why = "The model gave no answer that can be used, so nothing is recorded."
        return f"{why} The prompt is of the kind {self.unknown[0]}"

    def check(self) -> None:
        """Raise `UnknownPromptError` where a prompt had no answer."""
        if self.unknown:
            raise UnknownPromptError(self._explained())

    def save(self, answered_by: str) -> None:
        """Write what was recorded to the file, with the name of who answered."""
        on = f"{datetime.now(UTC):%Y-%m-%d}"
        self.recording = {
            "answered_by": answered_by,
            "recorded_on": on,
            **self.recording,
        }
        text = json.dumps(self.recording, ensure_ascii=False, indent=1)
        self.file.write_text(f"{text}\n", encoding="utf-8")


def texts_shown(kind: str, texts: Sequence[str]) -> list[str]:
    """What a prompt shows of a user's words and memory, in an order of its own.

    Memory quotes it, or has it on lines of its own; what is said in a chat stands as it
    is.
    """
    found: set[str] = set()
    for text in texts:
        if kind == CHAT and not text.startswith("<memory>"):
            found.add(text)
        else:
            found |= {*_quoted(text), *_WHOLE_LINE.findall(text)}
    return sorted(found)


def _quoted(text: str) -> list[str]:
    return [json.loads(quoted) for quoted in _STRING.findall(text)]


def _rules(rules: list[str], form: Any) -> str:
    """A short name for the rules of a prompt and the schema of its answer."""
    return hashlib.sha256(
        json.dumps([rules, form], sort_keys=True).encode()
    ).hexdigest()[:12]


def _with_aliases(answer: Any, before: str, now: str) -> Any:
    """The answer with the aliases that now stand before the texts, in place of those of
    before.
    """
    places = {texts: alias for alias, texts in _aliased(now)}
    names = {alias: places.get(texts, alias) for alias, texts in _aliased(before)}

    def renamed(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: renamed(value) for name, value in part.items()}
        if isinstance(part, list):
            return [renamed(value) for value in part]
        return names.get(part, part) if isinstance(part, str) else part

    return renamed(answer)


def _aliased(question: str) -> list[tuple[str, tuple[str, ...]]]:
    """The aliases that begin a line, each with its letter and the texts of the line."""
    lines = _ALIASED.findall(question)
    return [(alias, (alias[0], *_quoted(rest))) for alias, rest in lines]
