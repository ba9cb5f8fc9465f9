"""A chat model that notes its calls, and one that gives answers that were noted
before.
"""

import gzip
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

from benchmarks.queue_model import parsed, parts_of
from langmem_graph.errors import InvalidInputError
from langmem_graph.settings import Settings
from langmem_graph.tokens import token_counter

LARGEST_PLAIN = 1 << 18
"""Bytes of a file of recorded answers; a longer one is compressed."""


@dataclass
class Call:
    """One call of the model.

    Attributes:
        purpose: the name of the schema that was asked for.
        rules: names the system text, which `Watched.rules` holds.
        repair: it was asked again after an unusable answer.
        session: the case's session that was being added.
        problem: why there was no answer.
    """

    purpose: str
    rules: str
    user: str
    answer: str
    repair: bool
    session: int
    rule_tokens: int
    user_tokens: int
    answer_tokens: int
    seconds: float
    on: str
    problem: str = ""


_NO_TOKENS = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)
FINDS_NOTHING: dict[str, dict[str, Any]] = {
    "TopicRound": {"tracks": []},
    "ProfileText": {"text": "Nothing is known.", "topics": []},
    "CausalPairs": {"pairs": []},
}
"""Answers to the calls about topics, profile and causes, which say nothing of what is
true: they are counted, but not put to the model.
"""


class Watched(BaseChatModel):
    """Passes calls to another chat model and notes them; some it answers itself.

    Attributes:
        calls: in the order in which they were answered.
        rules: the system texts by their names.
        session: noted with each call.
    """

    inner: BaseChatModel
    calls: list[Call] = Field(default_factory=list)
    rules: dict[str, str] = Field(default_factory=dict)
    session: int = 0

    @property
    def _llm_type(self) -> str:
        return "watched"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return self.inner._generate(messages, stop, run_manager, **options)

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **options: Any
    ) -> Runnable[Any, Any]:
        """The inner model's, with each call noted."""
        structured = self.inner.with_structured_output(
            schema, include_raw=True, **options
        )

        def answer(messages: list[BaseMessage]) -> Any:
            start = perf_counter()
            try:
                given: Any = _nothing(schema) or structured.invoke(messages)
            except Exception as error:
                self._note(
                    schema, messages, "", perf_counter() - start, repr(error)[:500]
                )
                raise
            self._note(schema, messages, _text_of(given), perf_counter() - start, "")
            return given if include_raw else given["parsed"]

        return RunnableLambda(answer)

    def _note(
        self,
        schema: Any,
        messages: list[BaseMessage],
        answer: str,
        seconds: float,
        problem: str,
    ) -> None:
        system, user = parts_of(messages)
        shape = json.dumps(convert_to_openai_tool(schema), ensure_ascii=False)
        rules = hashlib.sha256(system.encode()).hexdigest()[:12]
        self.rules[rules] = system
        counter = token_counter(Settings().encoding).count
        call = Call(
            purpose=schema.__name__,
            rules=rules,
            user=user,
            answer=answer,
            repair=len(messages) > 2,
            session=self.session,
            rule_tokens=counter(system) + counter(shape),
            user_tokens=counter(user),
            answer_tokens=counter(answer),
            seconds=round(seconds, 3),
            on=datetime.now(UTC).date().isoformat(),
            problem=problem,
        )
        self.calls.append(call)


def _nothing(schema: Any) -> dict[str, Any] | None:
    """The answer to a call that is not put to the model."""
    answer = FINDS_NOTHING.get(schema.__name__)
    if answer is None:
        return None
    raw = AIMessage(json.dumps(answer), usage_metadata=_NO_TOKENS)
    return {"raw": raw, "parsed": schema.model_validate(answer), "parsing_error": None}


def _text_of(given: Any) -> str:
    """An answer as JSON, wherever the provider puts it."""
    raw = given.get("raw")
    calls = getattr(raw, "tool_calls", None)
    if calls:
        return json.dumps(calls[0]["args"], ensure_ascii=False)
    text = str(getattr(raw, "text", "") or "")
    if not text and given.get("parsed") is not None:
        return str(given["parsed"].model_dump_json())
    return text


@dataclass(frozen=True)
class Recording:
    """Answers by what was asked, and the name of the model that gave them."""

    answers: dict[str, list[str]]
    named: str = ""


class MissingAnswerError(InvalidInputError):
    """The recorded answers do not hold the answer to this question."""


def _counters() -> dict[str, Iterator[int]]:
    return defaultdict(count)


class RecordedModel(BaseChatModel):
    """Answers as was recorded: what was asked several times, in the recorded order.

    Attributes:
        otherwise: asked what was not recorded; None is nobody.
        missing: what had no recorded answer.
    """

    recording: Recording
    otherwise: BaseChatModel | None = None
    missing: list[str] = Field(default_factory=list)
    _given: dict[str, Iterator[int]] = PrivateAttr(default_factory=_counters)

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self, messages: list[BaseMessage], *args: Any, **options: Any
    ) -> ChatResult:
        raise MissingAnswerError("Plain texts are not recorded.")

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **options: Any
    ) -> Runnable[Any, Any]:
        """A runnable that gives the recorded answer in the schema."""

        def answer(messages: list[BaseMessage]) -> Any:
            system, user = parts_of(messages)
            key = key_of(schema.__name__, system, user, datetime.now(UTC).date())
            answers = self.recording.answers.get(key)
            if not answers and self.otherwise is not None:
                other = self.otherwise.with_structured_output(
                    schema, include_raw=include_raw, **options
                )
                return other.invoke(messages)
            if not answers:
                told = (
                    f"No recorded answer to {schema.__name__} {key[:12]}: "
                    f"{user[-300:]!r}"
                )
                self.missing.append(told)
                raise MissingAnswerError(told)
            read = parsed(
                schema, answers[min(next(self._given[key]), len(answers) - 1)]
            )
            return read if include_raw else read["parsed"]

        return RunnableLambda(answer)


def key_of(purpose: str, system: str, user: str, today: date) -> str:
    """What a question is recorded under; the day on which it was asked does not
    count.
    """
    weekday = f"{today:%a}[a-z]*"
    spoken = rf"(?:{weekday},? )?{today.isoformat()}(?:,? \(?{weekday}\)?)?"
    plain = re.sub(spoken, "<today>", user)
    return hashlib.sha256("\0".join([purpose, system, plain]).encode()).hexdigest()


def write_recording(
    file: Path, named: str, calls: Iterable[dict[str, Any]], rules: dict[str, str]
) -> Path:
    """Write what was asked and answered as JSON lines; returns the file, compressed if
    large.

    Args:
        file: where to; `.gz` is added where it is compressed.
        named: the model that answered.
        calls: as `Call` holds them; those without an answer are left out.
        rules: the system texts by their names.
    """
    rows: list[dict[str, Any]] = [{"model": named}]
    rows += [{"rules": name, "system": text} for name, text in sorted(rules.items())]
    kept = ("purpose", "rules", "user", "answer", "on")
    rows += [{name: call[name] for name in kept} for call in calls if call["answer"]]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    if len(text) > LARGEST_PLAIN:
        file = file if file.suffix == ".gz" else file.with_name(f"{file.name}.gz")
        file.write_bytes(gzip.compress(text, mtime=0))
    else:
        file.write_bytes(text)
    return file


def read_recording(file: Path) -> Recording:
    """The answers that `write_recording` wrote, with the rows of several files if
    joined.
    """
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    systems: dict[str, str] = {}
    found: dict[str, list[str]] = defaultdict(list)
    named: Sequence[str] = ()
    for row in map(json.loads, text.splitlines()):
        if "model" in row:
            named = [*named, row["model"]]
        elif "system" in row:
            systems[row["rules"]] = row["system"]
        else:
            asked = row["purpose"], systems[row["rules"]], row["user"]
            found[key_of(*asked, date.fromisoformat(row["on"]))].append(row["answer"])
    return Recording(dict(found), ", ".join(named))


def as_rows(calls: Iterable[Call]) -> list[dict[str, Any]]:
    """Calls as JSON objects."""
    return [asdict(call) for call in calls]
