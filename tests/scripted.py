"""A chat model that says what a test tells it to, and can misbehave."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolCall
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel, ConfigDict, Field

Line = str | AIMessage | BaseModel | Exception | Callable[[list[BaseMessage]], Any]


class ScriptedChatModel(BaseChatModel):
    """Says its script line by line; the last line again when the script is over.

    A line is a text, a message, a pydantic object (a tool call with its fields), an exception to
    raise, or a function of the messages that gives one of these. `requests` keeps what was asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    script: list[Any] = Field(default_factory=lambda: ["ok"])
    requests: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        said = self._next(messages)
        if said.tool_calls:
            chunk = AIMessageChunk(
                said.content,
                tool_calls=said.tool_calls,
                id=said.id,
                usage_metadata=said.usage_metadata,
                chunk_position="last",
            )
            yield ChatGenerationChunk(message=chunk)
            return
        for word in str(said.content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(f"{word} ", id=said.id))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self.requests.append(list(messages))
        line = self.script[min(len(self.requests), len(self.script)) - 1]
        line = line(messages) if callable(line) else line
        if isinstance(line, Exception):
            raise line
        if isinstance(line, BaseModel) and not isinstance(line, BaseMessage):
            number = len(self.requests)
            call = ToolCall(name=type(line).__name__, args=line.model_dump(), id=f"call-{number}")
            line = AIMessage("", tool_calls=[call])
        said = line if isinstance(line, AIMessage) else AIMessage(str(line))
        said.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        said.response_metadata = {"model_name": "scripted"}
        return said

    def bind_tools(
        self, tools: Sequence[Any], **options: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=list(tools), **options)


Answer = Callable[[str], Any]


class Mind(ScriptedChatModel):
    """Answers by the schema that is asked for; keeps the questions."""

    def __init__(self, **answers: Answer | Any) -> None:
        super().__init__()
        nothing = {"TopicRound": {"tracks": []}, "CausalPairs": {"pairs": []}}
        object.__setattr__(self, "answers", nothing | answers)
        object.__setattr__(self, "asked", [])

    def with_structured_output(self, schema: Any, **options: Any) -> Any:
        return super().with_structured_output(schema, **options)

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        wanted = options["tools"][0] if options.get("tools") else None
        name = wanted.__name__ if hasattr(wanted, "__name__") else wanted["function"]["name"]
        question = str(messages[1].content)
        self.asked.append((name, question))  # type: ignore[attr-defined]
        answer = self.answers.get(name, {})  # type: ignore[attr-defined]
        answer = answer(question) if callable(answer) else answer
        if isinstance(answer, dict):
            call = {"name": name, "args": answer, "id": "c"}
            answer = AIMessage("", tool_calls=[call])
        self.script[:] = [answer]
        return super()._generate(messages, *args, **options)
