"""`MemoryRetriever`: the messages of one user as a LangChain retriever."""

from typing import Any

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from langmem_graph.filters import narrowed
from langmem_graph.results import SearchBy
from langmem_graph.retrieval.quoted_context import label_words
from langmem_graph.schemas import MessageHit


class MemoryRetriever(BaseRetriever):
    """Messages of one user as documents, best first; `k` may also be given to `invoke`.

    `user` is a `UserMemory`; `UserMemory.as_retriever` makes this object.
    """

    user: Any = Field(exclude=True, repr=False)
    k: int = 5
    by: SearchBy = "message"
    where: dict[str, Any] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        found = self.user.search_conversation(query, **self._search_options(options))
        return list(map(_document, found))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        **options: Any,
    ) -> list[Document]:
        found = await self.user.asearch_conversation(
            query, **self._search_options(options)
        )
        return list(map(_document, found))

    def _search_options(self, options: dict[str, Any]) -> dict[str, Any]:
        where = narrowed(self.where, options.get("where"))
        return {"k": self.k, "by": self.by} | options | {"where": where}


def _document(hit: MessageHit) -> Document:
    """The text, and all else as metadata; of what does not hold, the labels also in
    words.
    """
    metadata = hit.model_dump(
        mode="json", exclude={"text", "signals", "excerpt", "missed"}
    )
    metadata |= {"label": label_words(hit.labels).strip()} if hit.labels else {}
    return Document(id=hit.message_id, page_content=hit.text, metadata=metadata)
