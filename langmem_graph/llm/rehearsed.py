"""A stand-in for a language model: answers learnt by heart. No network, no weights."""

from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field


class RehearsedChatModel(BaseChatModel):
    """Gives the answer that it was given for a schema, and says what it was told to say.

    For examples and tests that show the way through a graph without a model.

    Example:
        `RehearsedChatModel(answers={"GoalPlan": {"intent": "act"}})`
    """

    answers: dict[str, Any] = Field(default_factory=dict)
    """Fields of the answer by the schema's name, or a function that makes them of what is asked;
    other schemas get no usable answer."""
    says: list[AIMessage] = Field(default_factory=list)
    """Its turns after each user message, in order; the last one is repeated."""

    @property
    def _llm_type(self) -> str:
        return "rehearsed"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, Any]:
        """It calls the tools that its lines call."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        if not self.says:
            return AIMessage("")
        said = 0
        for message in messages:
            said = 0 if isinstance(message, HumanMessage) else said + isinstance(message, AIMessage)
        # A copy: whoever gets it may give it an id.
        return self.says[min(said, len(self.says) - 1)].model_copy(deep=True)

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Answers that fit the schema."""
        fields = self.answers.get(schema.__name__)

        def answer(asked: Any) -> dict[str, Any]:
            made = fields(_words(asked)) if callable(fields) else fields
            parsed = None if made is None else schema.model_validate(made)
            return {"raw": AIMessage(""), "parsed": parsed, "parsing_error": None}

        return RunnableLambda(answer)


def _words(asked: Any) -> str:
    last = asked[-1] if isinstance(asked, list) else asked
    return str(last.text) if isinstance(last, BaseMessage) else str(last)
