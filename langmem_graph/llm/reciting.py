"""A stand-in for a language model: it recites the memory it was shown. No network, no weights."""

import json
import re
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

_QUOTE = re.compile(r'^- (?P<day>\S+) \S+ user \[.*?\]: (?P<words>".*")$', re.MULTILINE)


class RecitingChatModel(BaseChatModel):
    """Answers every turn with what the user said before, as far as memory put it in the request.

    For trying things offline: it shows what reached the model, and it never makes anything up.
    """

    most: int = 3
    """How many quotes it recites."""

    @property
    def _llm_type(self) -> str:
        return "reciting"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        shown = "\n".join(str(m.text) for m in messages if m.text.startswith("<memory>"))
        quotes = [f"- {q['day']}: {json.loads(q['words'])}" for q in _QUOTE.finditer(shown)]
        answer = "\n".join(["From memory, you said:", *quotes[-self.most :]])
        said = AIMessage(answer if quotes else "I have nothing in memory about that yet.")
        return ChatResult(generations=[ChatGeneration(message=said)])
