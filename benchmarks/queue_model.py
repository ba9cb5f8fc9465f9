"""A chat model whose calls lie in a folder until somebody answers them.

So a capable model that no server offers can be measured: each structured call is
written to a folder, and waits there until a person or an agent has given the answer.

    python -m benchmarks.queue_model next DIR --most 12 --who ann   # shows what is to
    be answered python -m benchmarks.queue_model put DIR FILE                   #
    {"000012": {…answer…}, …} python -m benchmarks.queue_model again DIR --who ann
    # what was shown is shown again

Several may answer at the same time: a question is shown to one of them only.
"""

import argparse
import atexit
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import ValidationError

_FOLDERS = ("ids", "parts", "open", "shown", "answers", "rules", "asking")
_POLL_SECONDS = 0.2
_GATHER_SECONDS = 8.0
"""How long `next` waits for more questions once there is one."""


@dataclass(frozen=True)
class Question:
    """One call that waits for its answer."""

    name: str
    body: dict[str, Any]

    @property
    def tag(self) -> str:
        """Which conversation it comes from; it says nothing else about it."""
        return str(self.body["tag"])

    @property
    def rules(self) -> str:
        """A name for what all questions of this kind have in common: rules and
        schema.
        """
        common = (
            f"{self.body['system']}\0{json.dumps(self.body['schema'], sort_keys=True)}"
        )
        return f"{self.body['kind']}-{hashlib.sha256(common.encode()).hexdigest()[:10]}"


class Queue:
    """A folder with questions and answers; safe for several processes that ask and
    answer.

    Each state of a question is a folder, and a question changes its state by being
    renamed: `open`, then `shown` to one answerer. Answers lie in `answers`.

    Args:
        folder: made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._last = 0
        for name in _FOLDERS:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def ask(self, body: dict[str, Any]) -> str:
        """Put a question into the folder; returns its name."""
        self._announce()  # first: a number that nobody asks under looks like the end
        name = self._new_name()
        part = self.folder / "parts" / f"{name}.json"
        part.write_text(json.dumps(body, ensure_ascii=False), encoding="utf-8")
        part.rename(self.folder / "open" / part.name)
        return name

    def _new_name(self) -> str:
        """The next free number, also where other processes take numbers."""
        with self._lock:
            while True:
                self._last += 1
                try:
                    (self.folder / "ids" / f"{self._last:06d}").touch(exist_ok=False)
                except FileExistsError:
                    continue
                return f"{self._last:06d}"

    def _announce(self) -> None:
        mark = self.folder / "asking" / str(os.getpid())
        if not mark.exists():
            mark.touch()
            atexit.register(mark.unlink, missing_ok=True)

    def is_asked(self) -> bool:
        """Whether a process that has asked something is still running."""
        return any(
            _is_running(int(mark.name)) for mark in (self.folder / "asking").iterdir()
        )

    def wait(self, name: str) -> str:
        """The answer to a question, however long it takes."""
        answer = self.folder / "answers" / f"{name}.json"
        while not answer.exists():
            time.sleep(_POLL_SECONDS)
        return answer.read_text(encoding="utf-8")

    def open(self, part: tuple[int, int] = (1, 1)) -> list[Question]:
        """The oldest open question of each conversation.

        Args:
            part: `(2, 3)` is the second of three shares of the conversations.
        """
        chosen: dict[str, Question] = {}
        for file in sorted((self.folder / "open").glob("*.json")):
            try:
                body = json.loads(file.read_text(encoding="utf-8"))
            except FileNotFoundError:  # another answerer has taken it
                continue
            if _share(body["tag"], part[1]) == part[0]:
                chosen.setdefault(body["tag"], Question(file.stem, body))
        return list(chosen.values())

    def claim(
        self, most: int, who: str, part: tuple[int, int] = (1, 1)
    ) -> list[Question]:
        """Take at most so many open questions, each of another conversation."""
        taken: list[Question] = []
        for question in self.open(part):
            if len(taken) == most:
                break
            file = self.folder / "open" / f"{question.name}.json"
            try:
                file.rename(self.folder / "shown" / f"{question.name}@{who}.json")
            except FileNotFoundError:  # another answerer was faster
                continue
            taken.append(question)
        return taken

    def is_new_rule(self, question: Question, who: str) -> bool:
        """Whether this answerer sees the rules of such questions for the first time."""
        try:
            (self.folder / "rules" / f"{question.rules}@{who}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def answer(self, name: str, text: str) -> str | None:
        """Give the answer to a question; returns why it was not taken, or None."""
        if not (self.folder / "ids" / name).exists():
            return f"there is no question {name}"
        part = self.folder / "parts" / f"{name}-{os.getpid()}.answer"
        part.write_text(text, encoding="utf-8")
        try:
            os.link(part, self.folder / "answers" / f"{name}.json")
        except FileExistsError:
            return f"{name} was answered before"
        finally:
            part.unlink()
        return None

    def unanswered(self, who: str | None = None) -> list[Path]:
        """What was shown, to one answerer or to all, and has no answer yet."""
        shown = sorted((self.folder / "shown").glob(f"*@{who or '*'}.json"))
        return [
            one for one in shown if not (self.folder / "answers" / _plain(one)).exists()
        ]

    def again(self, who: str | None = None) -> int:
        """Open again what was shown and not answered; returns how many questions these
        are.
        """
        files = self.unanswered(who)
        for file in files:
            file.rename(self.folder / "open" / _plain(file))
        return len(files)


def _plain(shown: Path) -> str:
    return f"{shown.stem.split('@')[0]}.json"


def _share(tag: str, count: int) -> int:
    return int(hashlib.sha256(tag.encode()).hexdigest(), 16) % count + 1


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class QueueModel(BaseChatModel):
    """A chat model that writes each call to a `Queue` and waits for the answer.

    Args:
        queue: the folder.
        tag: names the conversation in the queue; answerers see it, so it should say
            nothing.
    """

    queue: Queue
    tag: str = ""

    @property
    def _llm_type(self) -> str:
        return "queue"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        text = self._ask("text", messages, None)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(text))])

    def with_structured_output(
        self, schema: Any, *, include_raw: bool = False, **options: Any
    ) -> Runnable[Any, Any]:
        """A runnable whose answers are read as the schema, a pydantic class."""

        def answer(messages: list[BaseMessage]) -> Any:
            text = self._ask(schema.__name__, messages, schema.model_json_schema())
            read = parsed(schema, text)
            return read if include_raw else read["parsed"]

        return RunnableLambda(answer)

    def _ask(self, kind: str, messages: Sequence[BaseMessage], schema: Any) -> str:
        system, user = parts_of(messages)
        body = {
            "kind": kind,
            "system": system,
            "user": user,
            "schema": schema,
            "tag": self.tag,
        }
        return self.queue.wait(self.queue.ask(body))


def parts_of(messages: Sequence[BaseMessage]) -> tuple[str, str]:
    """The system text and all other texts of a call."""
    system = "\n".join(str(one.text) for one in messages if one.type == "system")
    return system, "\n\n---\n\n".join(
        str(one.text) for one in messages if one.type != "system"
    )


def parsed(schema: Any, text: str) -> dict[str, Any]:
    """An answer in the form that `with_structured_output(…, include_raw=True)`
    returns.
    """
    try:
        value, error = schema.model_validate_json(text), None
    except ValidationError as problem:
        value, error = None, problem
    return {"raw": AIMessage(text), "parsed": value, "parsing_error": error}


def show(queue: Queue, most: int, who: str, part: tuple[int, int], wait: float) -> str:
    """The next questions as a text, with the rules of each kind where they are new."""
    _gather(queue, most, part, wait)
    questions = queue.claim(most, who, part)
    if not questions:
        return (
            "Nothing is open; ask again."
            if queue.is_asked()
            else "Nothing is open: DONE."
        )
    lines = []
    for question in questions:
        kind = question.body["kind"]
        if queue.is_new_rule(question, who):
            schema = json.dumps(question.body["schema"], ensure_ascii=False)
            lines.append(
                f"######## RULES for {kind} (shown once)\n{question.body['system']}"
            )
            lines.append(f"--- JSON schema of the answer: {schema}\n")
        head = f"######## QUESTION {question.name} [{kind}] of {question.tag}"
        lines.append(f"{head}\n{question.body['user']}\n")
    return "\n".join(lines)


def _gather(queue: Queue, most: int, part: tuple[int, int], wait: float) -> None:
    """Wait until a batch is full, or for some seconds after its first question."""
    end, first = time.monotonic() + wait, None
    while time.monotonic() < end:
        count = len(queue.open(part))
        if count >= most:
            return
        first = first or (time.monotonic() if count else None)
        if first and time.monotonic() > first + _GATHER_SECONDS:
            return
        if not count and any((queue.folder / "ids").iterdir()) and not queue.is_asked():
            return
        time.sleep(_POLL_SECONDS)


def put(queue: Queue, file: Path) -> str:
    """Take the answers of a file: a JSON object of names and answers."""
    given = json.loads(file.read_text(encoding="utf-8"))
    problems = []
    for name, answer in given.items():
        text = (
            answer
            if isinstance(answer, str)
            else json.dumps(answer, ensure_ascii=False)
        )
        problems.append(queue.answer(name, text))
    told = [problem for problem in problems if problem]
    left = ", ".join(one.stem for one in queue.unanswered()) or "none"
    taken = f"{len(given) - len(told)} answers taken; shown and not answered: {left}"
    return "\n".join([*told, taken])


def _part(text: str) -> tuple[int, int]:
    place, count = (int(one) for one in text.split("/"))
    if not 1 <= place <= count:
        raise argparse.ArgumentTypeError(f"{text}: from 1/{count} to {count}/{count}")
    return place, count


def main(words: Sequence[str] | None = None) -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.queue_model", description=__doc__
    )
    made.add_argument("verb", choices=["next", "put", "again"])
    made.add_argument("folder", type=Path)
    made.add_argument("file", type=Path, nargs="?", help="of the answers, for put")
    made.add_argument("--most", type=int, default=12, help="questions shown at once")
    made.add_argument(
        "--part", type=_part, default=(1, 1), help="2/3: the second of three shares"
    )
    made.add_argument("--who", help="who answers; rules are shown to each once")
    made.add_argument(
        "--wait", type=float, default=60.0, help="seconds to wait for questions"
    )
    options = made.parse_args(words)
    queue = Queue(options.folder)
    if options.verb == "next":
        text = show(
            queue, options.most, options.who or "all", options.part, options.wait
        )
    elif options.verb == "again":
        text = f"{queue.again(options.who)} questions are open again"
    elif options.file is None:
        made.error("put needs the file with the answers")
    else:
        text = put(queue, options.file)
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
