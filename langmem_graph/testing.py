"""For the tests of applications: a scripted chat model and an embedder, without a
network.
"""

import itertools
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolCall,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, Field, PrivateAttr

from langmem_graph.embeddings.hash_embeddings import HashEmbeddings

__all__ = ["HashEmbeddings", "ScriptedChatModel", "alias_of", "each_turn", "recite"]
_USAGE = UsageMetadata(input_tokens=10, output_tokens=5, total_tokens=15)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_QUOTE = re.compile(
    r"^ *- (?P<day>\S+) \S+ (?:user|[^\[]+(?P<room> \(shared room .+?\)))"
    r' \[.*?\]: (?P<words>".*")$',
    re.MULTILINE,
)


class ScriptedChatModel(BaseChatModel):
    """A LangChain chat model that gives the answers of a test's script.

    It works wherever a chat model does: `invoke` and `ainvoke`, streaming,
    `bind_tools`, `with_structured_output`, and as the model of a `Memory`. It never
    uses the network.

    An answer is one of these:

    - a text, or an `AIMessage` (with tool calls, if it has any);
    - a pydantic object: a call of the tool of that name, with its fields; the fields
      alone, as a dict or as an object, where the question asks for a schema;
    - an exception, which is raised;
    - a function that returns one of these. In `script` it is given the messages, in
      `answers` the text of the question (the first user message). Answers to
      `Extraction` and `Reconciliation` name messages and records by aliases that are
      new in each call: see `alias_of`.

    Args:
        script: answers in order, the last one repeated; or one function of the
            messages.
        answers: answers to questions that ask for a schema (`with_structured_output`),
            by the name of the schema's class; a list holds answers in order, the last
            one repeated. A schema that is not named is answered with empty lists and
            defaults.
        delay: seconds before each answer.
        record: False keeps neither `requests` nor `asked`, for long runs.

    Attributes:
        requests: the messages of each call.
        asked: of each call that asked for a schema, the schema's name and the question.

    Examples:
        >>> from langmem_graph.testing import ScriptedChatModel
        >>> down = ConnectionError("the server is down")
        >>> model = ScriptedChatModel(script=["Noted.", down])
        >>> model.invoke("I always take an aisle seat.").text
        'Noted.'
        >>> model.invoke("Which seat?")
        Traceback (most recent call last):
        ...
        ConnectionError: the server is down
        >>> [messages[0].text for messages in model.requests]
        ['I always take an aisle seat.', 'Which seat?']
    """

    script: list[Any] | Callable[..., Any] = Field(default_factory=lambda: ["ok"])
    answers: dict[str, Any] = Field(default_factory=dict)
    delay: float = 0.0
    record: bool = True
    requests: list[list[BaseMessage]] = Field(default_factory=list)
    asked: list[tuple[str, str]] = Field(default_factory=list)
    _calls: Iterator[int] = PrivateAttr(default_factory=lambda: itertools.count(1))
    _given: Counter[str] = PrivateAttr(default_factory=Counter)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[Any],
        *,
        ls_structured_output_format: dict[str, Any] | None = None,
        **options: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """A model that is given these tools; it calls those that its answers call.

        `with_structured_output` names its schema in `ls_structured_output_format`.
        """
        if ls_structured_output_format is not None:
            options["schema"] = tools[0]
        return self.bind(tools=list(map(_tool_of, tools)), **options)

    def _generate(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> ChatResult:
        message = self._answer(messages, options.get("schema"))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], *_: Any, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._answer(messages, options.get("schema"))
        is_plain = isinstance(message.content, str) and not message.tool_calls
        words = re.findall(r"\S+\s*|\s+", str(message.content)) if is_plain else []
        for word in words:
            yield ChatGenerationChunk(
                message=AIMessageChunk(content=word, id=message.id)
            )
        last = message.model_dump(exclude={"type"}) | {
            "content": "" if words else message.content
        }
        yield ChatGenerationChunk(message=AIMessageChunk(**last, chunk_position="last"))

    def _answer(self, messages: list[BaseMessage], schema: Any) -> AIMessage:
        time.sleep(self.delay)
        if self.record:
            self.requests.append(list(messages))
        number = next(self._calls)
        if schema is None:
            return _message(self._next("", self.script, messages), None, number)
        name = _tool_of(schema)["function"]["name"]
        question = _question(messages)
        if self.record:
            self.asked.append((name, question))
        answers = self.answers[name] if name in self.answers else _empty(schema)
        return _message(self._next(name, answers, question), name, number)

    def _next(self, name: str, answers: Any, given: Any) -> Any:
        if isinstance(answers, list):
            self._given[name] += 1
            answers = answers[min(self._given[name], len(answers)) - 1]
        return answers(given) if callable(answers) else answers


def _tool_of(tool: Any) -> dict[str, Any]:
    """What a server is sent of a tool; the form of a class, which takes long, is made
    once.
    """
    return _class_form(tool) if isinstance(tool, type) else convert_to_openai_tool(tool)


_class_form = lru_cache(maxsize=100)(convert_to_openai_tool)


def _question(messages: Sequence[BaseMessage]) -> str:
    return next((str(m.text) for m in messages if isinstance(m, HumanMessage)), "")


def _empty(schema: Any) -> dict[str, Any]:
    """An empty answer: the lists that the schema requires are empty, other fields are
    defaults.
    """
    parameters = _tool_of(schema)["function"]["parameters"]
    fields = parameters["properties"]
    lists = [
        name
        for name in parameters.get("required", [])
        if fields[name].get("type") == "array"
    ]
    return {name: [] for name in lists}


def _message(answer: Any, name: str | None, number: int) -> AIMessage:
    """The answer as a new message, since the caller may change it."""
    if isinstance(answer, Exception):
        raise answer
    if isinstance(answer, BaseModel) and not isinstance(answer, BaseMessage):
        name = name or type(answer).__name__
        answer = answer.model_dump()
    if name and isinstance(answer, dict):
        answer = AIMessage(
            "", tool_calls=[ToolCall(name=name, args=answer, id=f"call-{number}")]
        )
    made = (
        answer.model_copy(deep=True)
        if isinstance(answer, AIMessage)
        else AIMessage(str(answer))
    )
    made.usage_metadata = made.usage_metadata or UsageMetadata(**_USAGE)
    made.response_metadata = {"model_name": "scripted", **made.response_metadata}
    return made


def alias_of(question: str, words: str, kind: str = "m") -> str:
    """The alias under which a question shows a message or a record, for a scripted
    answer.

    Extraction draws its aliases at random for each call, so an answer cannot know them:
    it is a function of the question.

    Args:
        question: what the model is shown.
        words: words of the message or record; the first line that says them is taken.
        kind: the letter of the alias: `m` is a new message, `b` one that was said
            before, `n` a record.

    Raises:
        LookupError: no line of this kind says these words.

    Examples:
        >>> from langmem_graph.testing import alias_of
        >>> alias_of('[m7] user: "I always take an aisle seat."', "an aisle seat")
        'm7'
    """
    line = re.compile(rf"^\[?({re.escape(kind)}\d+)\b(.*)$", re.MULTILINE)
    for found in line.finditer(question):
        if any(words in json.loads(text) for text in _STRING.findall(found[2])):
            return found[1]
    raise LookupError(f"The question shows no line {kind}… that says {words!r}.")


def each_turn(*answers: Any) -> Callable[[Sequence[BaseMessage]], Any]:
    """A script that starts again at every user message, for agents that call tools.

    The next answer follows from the messages, so that any number of conversations may
    share it.

    Args:
        answers: in order, the last one repeated.

    Examples:
        >>> from langchain_core.messages import AIMessage
        >>> from langmem_graph.testing import ScriptedChatModel, each_turn
        >>> call = {"name": "weather", "args": {"city": "Oslo"}, "id": "1"}
        >>> script = each_turn(AIMessage("", tool_calls=[call]), "Four degrees.")
        >>> model = ScriptedChatModel(script=script)
        >>> first = model.invoke([("user", "How cold is it?")])
        >>> first.tool_calls[0]["name"]
        'weather'
        >>> asked, again = ("user", "How cold is it?"), ("user", "And now?")
        >>> model.invoke([asked, first, again]).text
        ''
    """

    def answer(messages: Sequence[BaseMessage]) -> Any:
        given = 0
        for message in messages:
            is_answer = isinstance(message, AIMessage)
            given = 0 if isinstance(message, HumanMessage) else given + is_answer
        return answers[min(given, len(answers) - 1)]

    return answer


def recite(messages: Sequence[BaseMessage], most: int = 3) -> str:
    """A script that quotes the recalled messages in the request, and says nothing else.

    It shows which context the model would get.

    Args:
        messages: the request.
        most: the greatest number of quotes; the last ones are taken.

    Examples:
        >>> from langmem_graph.testing import ScriptedChatModel, recite
        >>> ScriptedChatModel(script=recite).invoke("Which seat do I take?").text
        'I have nothing in memory about that yet.'
    """
    context = "\n".join(str(m.text) for m in messages if m.text.startswith("<memory>"))
    found = _QUOTE.finditer(context)
    quotes = [f"- {q['day']}{q['room'] or ''}: {json.loads(q['words'])}" for q in found]
    answer = "\n".join(["From memory, you said:", *quotes[-most:]])
    return answer if quotes else "I have nothing in memory about that yet."
