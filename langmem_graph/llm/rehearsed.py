"""A stand-in for a language model: structured answers learnt by heart. No network, no weights."""

from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda


class RehearsedChatModel(BaseChatModel):
    """Gives the answer that it was given for a schema, whatever is asked.

    For examples and tests that show the way through a graph without a model.

    Example:
        `RehearsedChatModel(answers={"GoalPlan": {"intent": "act"}})`
    """

    answers: dict[str, Any]
    """Fields of the answer by the schema's name; other schemas get no usable answer."""

    @property
    def _llm_type(self) -> str:
        return "rehearsed"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(""))])

    def with_structured_output(self, schema: Any, **options: Any) -> Runnable[Any, Any]:
        """Answers that fit the schema."""
        fields = self.answers.get(schema.__name__)
        parsed = None if fields is None else schema.model_validate(fields)
        answer = {"raw": AIMessage(""), "parsed": parsed, "parsing_error": None}
        return RunnableLambda(lambda _: answer)
