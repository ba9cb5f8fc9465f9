"""Records a conversation with a memory: what was called, what the model was asked, what came back.

Only public names are used, so that the records hold whatever the modules are called. What no two
runs share (random ids, the clock, milliseconds) is replaced by placeholders.
"""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field

from langmem_graph import Memory
from langmem_graph.testing import ScriptedChatModel
from tests.support.settings import nested

__all__ = ["ScriptedChatModel", "Talk", "conversation", "conversations"]

STEP_NAMES = {"conflicts": "overlaps", "first_lookup": "recall"}
"""The recorded name of every step that is called otherwise by now: `{"new": "recorded"}`.

Steps are named in `report.milliseconds` alone."""

NOTHING: dict[str, Any] = {
    "Extraction": {"memories": []},
    "Reconciliation": {"changes": []},
    "CausalPairs": {"pairs": []},
    "TopicRound": {"tracks": []},
    "ProfileText": {"text": "", "topics": []},
    "GoalPlan": {"intent": "lookup"},
    "Unification": {},
    "Consequences": {"against": []},
    "GroundedAnswer": {"known": False},
    "ToolFill": {"arguments": {}},
    "ToolChoice": {"tool": "t1"},
}
"""What the model answers when a conversation has nothing else for it to say."""

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
)
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_NAME = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*"
_WEEKDAY = re.compile(rf"\b{_NAME} (?=<now>|<today>)|(?<=<now>) \({_NAME}\)")
_CHANGE = re.compile(r"[0-9a-f]{16}")
"""The id of a change, alone; those of records and messages are hashes of what they say."""
_RANDOM = re.compile(
    r"(?:lc_)?(?:run--)?[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?:-\d+)?"
)
_SHOWN = re.compile(r"(?<=#)[0-9a-f][0-9a-f-]{9}(?=[\],])")
"""The end of such an id, as contexts show it."""

Answer = Any
"""A dict of the schema's fields, a raw text, an exception, or a function of the prompt."""
conversations: dict[str, Callable[[Path], "Talk"]] = {}


class Model(ScriptedChatModel):
    """Answers by schema; a list is used up answer by answer. Keeps every prompt."""

    prompts: list[dict[str, Any]] = Field(default_factory=list)
    faults: list[Exception] = Field(default_factory=list)
    systems: dict[str, str] = Field(default_factory=dict)
    schemas: dict[str, Any] = Field(default_factory=dict)
    said: Any = None

    def __init__(self, **answers: Answer) -> None:
        given = {name: _in_turn(name, answer) for name, answer in answers.items()}
        super().__init__(answers=NOTHING | given)

    def _answer(self, messages: list[BaseMessage], schema: Any) -> AIMessage:
        tool = convert_to_openai_tool(schema)
        name = tool["function"]["name"]
        self.schemas[name] = tool
        system, human, *repairs = (str(message.content) for message in messages)
        label = f"{name} {hashlib.sha256(system.encode()).hexdigest()[:8]}"
        self.systems[label] = system
        prompt: dict[str, Any] = {"asked": name, "system": label, "human": human}
        if repairs:
            prompt["repair"] = repairs
        self.prompts.append(prompt)
        try:
            return super()._answer(messages, schema)
        except Exception as error:
            # nobody scripted it: the answer's function is wrong
            if error is not self.said:
                self.faults.append(error)
            raise
        finally:
            calls = getattr(self.said, "tool_calls", None)
            prompt["answer"] = calls[0]["args"] if calls else self.said

    def _next(self, name: str, answers: Any, given: Any) -> Any:
        self.said = super()._next(name, answers, given)
        return self.said


def _in_turn(name: str, answer: Answer) -> Answer:
    """A list as a function that gives one answer after the other, then nothing."""
    if not isinstance(answer, list):
        return answer
    left = list(answer)

    def following(prompt: str) -> Answer:
        said = left.pop(0) if left else NOTHING[name]
        return said(prompt) if callable(said) else said

    return following


class Talk:
    """A memory in a directory, and the record of what happens with it."""

    def __init__(
        self, path: Path, about: str, *, model: Any = None, **answers: Answer
    ) -> None:
        self.begun = datetime.now(UTC)
        self.about, self.steps = about, list[dict[str, Any]]()
        self.path = path
        self.model = Model(**answers) if model is None else None
        self._random: dict[str, str] = {}
        self.memory: Memory | None = None

    def open(self, **settings: Any) -> "Talk":
        """Open the memory, once more where it was open."""
        self.close()
        chosen = {
            "encoding": "estimated",
            "extraction__debounce_seconds": 3_600,
            "storage__closing_seconds": 0.01,
            "reasoning__call_seconds": 60,
            "reasoning__seconds": 600,
            **settings,
        }
        self.memory = Memory(
            self.path / "memory",
            model=self.model,
            embeddings="hash",
            causal_scorer="verifier",
            settings=nested(**chosen),
        )
        return self

    def close(self) -> None:
        """Close the memory."""
        if self.memory is not None:
            self.memory.close()

    def user(self, name: str | int) -> Any:
        """The memory of a user; each call is recorded."""
        assert self.memory is not None
        return Recorded(self, f"user({name!r})", self.memory.user(name))

    def run(self, what: str, work: Callable[[], Any], **given: Any) -> Any:
        """Do something and record it with the prompts that it led to."""
        first = len(self.model.prompts) if self.model else 0  # type: ignore[attr-defined]
        step: dict[str, Any] = {"call": what}
        if given:
            step["given"] = self.plain(given)
        try:
            result: Any = work()
            outcome = {"result": self.plain(result)}
        except Exception as error:  # noqa: BLE001  # what is raised is recorded too
            result, outcome = (
                None,
                {"raises": self.plain(f"{type(error).__name__}: {error}")},
            )
        asked = self.model.prompts[first:] if self.model else []  # type: ignore[attr-defined]
        if asked:
            step["prompts"] = [
                {k: self.plain(v) for k, v in one.items()} for one in asked
            ]
        self.steps.append(step | outcome)
        return result

    def golden(self) -> dict[str, Any]:
        """The record, JSON-shaped.

        Raises:
            AssertionError: an answer's function failed, which memory took for a failing model.
        """
        faults = self.model.faults if self.model else []  # type: ignore[attr-defined]
        assert not faults, f"{self.about}: {faults!r}"
        return {"about": self.about, "steps": self.steps}

    def plain(self, value: Any, key: str = "") -> Any:
        """Any value as JSON without what differs from run to run."""
        if key == "milliseconds":
            return _timings(value)
        if key == "bytes":
            return "<bytes>"
        # by memory: a hash of its directory
        if key == "stored" and isinstance(value, Mapping):
            return {"<memory>": [self.plain(one) for one in value.values()]}
        if (
            key in ("change", "reason")
            and isinstance(value, str)
            and _CHANGE.fullmatch(value)
        ):
            return self._named(value)
        if isinstance(value, BaseMessage):
            return self._message(value)
        if isinstance(value, Document):
            return self.plain({"text": value.page_content, **value.metadata})
        if isinstance(value, BaseTool):
            return self.plain(convert_to_openai_tool(value))
        if isinstance(value, BaseModel):
            return self.plain(value.model_dump(mode="json"))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self.plain(dataclasses.asdict(value))
        return self._json(value)

    def _json(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            empty = (("labels", []), ("missed", ""), ("near_misses", {}))
            empty += (("metadata", {}), ("agent_id", None))
            kept = (k for k in sorted(value, key=str) if (k, value[k]) not in empty)
            return {str(k): self.plain(value[k], str(k)) for k in kept}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.plain(one) for one in value]
        if isinstance(value, datetime):
            return self._text(value.isoformat())
        if isinstance(value, bool | int | None):
            return value
        if isinstance(value, float):
            return round(value, 4) + 0.0  # no minus zero
        if isinstance(value, Exception):
            return self._text(f"{type(value).__name__}: {value}")
        if isinstance(value, type):
            return self.plain(convert_to_openai_tool(value))
        if callable(value) and not isinstance(value, str):
            return "<a function>"
        return self._text(str(value))

    def _message(self, message: BaseMessage) -> Any:
        fields = {
            name: self.plain(getattr(message, name, None))
            for name in (
                "type",
                "id",
                "name",
                "content",
                "tool_calls",
                "tool_call_id",
                "artifact",
            )
        }
        return {
            name: value for name, value in fields.items() if value not in (None, [], "")
        }

    def _text(self, text: str) -> Any:
        text = text.encode("utf-8", "backslashreplace").decode()
        for random in (_RANDOM, _SHOWN):
            text = random.sub(lambda found: self._named(found[0]), text)
        text = _TIME.sub(self._time, text)
        text = _WEEKDAY.sub("", _DAY.sub(self._day, text))
        return {"lines": text.split("\n")} if "\n" in text else text

    def _named(self, random: Any) -> str:
        """`id1` for the first random id that appears, and so on."""
        return self._random.setdefault(str(random)[-10:], f"id{len(self._random) + 1}")

    def _time(self, found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0])
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
        early, late = (
            self.begun - timedelta(minutes=2),
            datetime.now(UTC) + timedelta(minutes=2),
        )
        return "<now>" if early <= at <= late else found[0]

    def _day(self, found: re.Match[str]) -> str:
        days = (self.begun.date(), datetime.now(UTC).date())
        return "<today>" if found[0] in map(str, days) else found[0]


def _timings(value: Any) -> Any:
    """The names of the stages that were timed."""
    if not isinstance(value, Mapping):
        return "<milliseconds>"
    return sorted(STEP_NAMES.get(name, name) for name in value)


class Recorded:
    """An object whose method calls are recorded."""

    def __init__(self, talk: Talk, name: str, of: Any) -> None:
        self._talk, self._name, self._of = talk, name, of

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            given = {"args": list(args)} if args else {}
            return self._talk.run(
                f"{self._name}.{method}",
                lambda: getattr(self._of, method)(*args, **options),
                **given,
                **options,
            )

        return call


def conversation(work: Callable[[Path], Talk]) -> Callable[[Path], Talk]:
    """Takes a function into `conversations`; its first line of documentation says what about."""
    assert work.__name__ not in conversations
    conversations[work.__name__] = work
    return work


def said(
    text: str, own_id: str, at: str | None = "2025-03-01T10:00", **fields: Any
) -> Any:
    """A user's message, or with `role` another's."""
    message = {"role": "user", "content": text, "id": own_id, **fields}
    return message | ({"at": at} if at else {})


def memory(text: str, *sources: str, **fields: Any) -> dict[str, Any]:
    """One memory of an extraction."""
    return {"text": text, "sources": list(sources) or ["m1"], **fields}


def extraction(
    *memories: dict[str, Any], changes: Sequence[Mapping[str, Any]] = ()
) -> Answer:
    """The answer of an extraction: new memories, and changes of the records that it shows."""
    if not changes:
        return {"memories": list(memories)}

    def answer(prompt: str) -> dict[str, Any]:
        texts = {str(place): one["text"] for place, one in enumerate(memories)}
        return {
            "memories": list(memories),
            "changes": _resolved(prompt, changes, texts),
        }

    return answer


def reconciliation(*changes: Mapping[str, Any]) -> Answer:
    """The answer of a second call: changes of the further records that it shows."""

    def answer(prompt: str) -> dict[str, Any]:
        texts = dict(re.findall(r"^(\d+): (.*)$", prompt, re.MULTILINE))
        return {"changes": _resolved(prompt, changes, texts)}

    return answer


def change(
    relation: str, record: str, quote: str, by: str | None = None, **fields: Any
) -> dict[str, Any]:
    """A change of an older record.

    Args:
        relation: what the message does to it.
        record: words of the older record, as they stand in the prompt.
        quote: words of the message; the first that says them is named.
        by: words of the memory that holds instead.
        fields: more fields; the words of a `message` or `agreed_message` are replaced by its alias.
    """
    return {"relation": relation, "record": record, "quote": quote, "by": by, **fields}


def _resolved(
    prompt: str, changes: Sequence[Mapping[str, Any]], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The changes with aliases and places instead of words."""
    made = []
    for given in changes:
        said_in = given.get("message", given["quote"])
        places = [
            int(place)
            for place, text in texts.items()
            if given["by"] and given["by"] in text
        ]
        resolved = {
            **given,
            "record": alias(prompt, "n", given["record"]),
            "message": alias(prompt, "[bm]", said_in),
            "by": places[0] if places else None,
        }
        if "agreed_message" in given:
            resolved["agreed_message"] = alias(prompt, "[bm]", given["agreed_message"])
        made.append(
            {name: value for name, value in resolved.items() if value is not None}
        )
    return made


def alias(prompt: str, kind: str, words: str) -> str:
    """What the prompt calls the first thing of a kind that says these words.

    Args:
        prompt: the model's question.
        kind: the letter of the aliases, such as `f` for facts.
        words: as they stand in the prompt.
    """
    found = re.search(
        rf"^\[?({kind}\d+)\]?:? .*{re.escape(words)}", prompt, re.MULTILINE
    )
    return found[1] if found else f"{kind.strip('[]')[-1]}99"
