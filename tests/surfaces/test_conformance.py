"""langchain-tests' standard suites: tools, embeddings and the retriever."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import (
    EmbeddingsIntegrationTests,
    RetrieversIntegrationTests,
    ToolsIntegrationTests,
)
from langchain_tests.unit_tests import EmbeddingsUnitTests, ToolsUnitTests

from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.memory import Memory
from langmem_graph.testing import HashEmbeddings
from langmem_graph.tools.memory_tools import create_memory_tools
from tests.conftest import said
from tests.support.marks import needs_model

TALK = [said(f"The garden needs water on day {n}.", id=f"m{n}") for n in range(8)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("shared"), embeddings="hash") as memory:
        memory.user("ana").add(TALK, session_id="s")
        yield memory


class _OurTool:
    name: str
    example: dict[str, Any]

    @pytest.fixture(autouse=True)
    def _use(self, shared: Memory) -> None:
        self.memory = shared

    @property
    def tool_constructor(self) -> BaseTool:
        tools = create_memory_tools(self.memory, user_id="ana")
        return next(tool for tool in tools if tool.name == self.name)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return self.example


class _Search(_OurTool):
    name = "search_conversation"
    example = {"query": "garden"}  # noqa: RUF012


class _Read(_OurTool):
    name = "get_conversation"
    example = {"message_ids": ["m1", "m2"]}  # noqa: RUF012


class _Records(_OurTool):
    name = "search_records"
    example = {"query": "garden"}  # noqa: RUF012


class _Remember(_OurTool):
    name = "remember"
    example = {"text": "The garden gate is green."}  # noqa: RUF012


class TestRecordsUnit(_Records, ToolsUnitTests):
    pass


class TestRecordsIntegration(_Records, ToolsIntegrationTests):
    pass


class TestRememberUnit(_Remember, ToolsUnitTests):
    pass


class TestRememberIntegration(_Remember, ToolsIntegrationTests):
    pass


class TestSearchUnit(_Search, ToolsUnitTests):
    pass


class TestSearchIntegration(_Search, ToolsIntegrationTests):
    pass


class TestReadUnit(_Read, ToolsUnitTests):
    pass


class TestReadIntegration(_Read, ToolsIntegrationTests):
    pass


class _Hash:
    embeddings_class = HashEmbeddings


class _MiniLM:
    embeddings_class = MiniLMEmbeddings


class TestHashUnit(_Hash, EmbeddingsUnitTests):
    pass


class TestHashIntegration(_Hash, EmbeddingsIntegrationTests):
    pass


@needs_model
class TestMiniLMUnit(_MiniLM, EmbeddingsUnitTests):
    pass


@needs_model
class TestMiniLMIntegration(_MiniLM, EmbeddingsIntegrationTests):
    pass


class TestRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _use(self, shared: Memory) -> None:
        self.memory = shared

    @property
    def retriever_constructor(self) -> Any:
        return self.memory.user("ana").as_retriever

    @property
    def retriever_query_example(self) -> str:
        return "garden"


async def test_the_retriever_keeps_provenance_and_never_blocks(tmp_path: Path) -> None:
    async with Memory(tmp_path / "m", embeddings="hash") as memory:
        ana = memory.user("ana")
        await ana.aadd(TALK, session_id="s")
        retriever: BaseRetriever = ana.as_retriever(k=1)
        await retriever.ainvoke("warm up")
        with blockbuster_ctx():
            (found,) = await retriever.ainvoke("water on day 5")
    assert found.id == "m5"
    assert found.page_content == "The garden needs water on day 5."
    assert found.metadata["session_id"] == "s"
    assert found.metadata["role"] == "user"
    assert found.metadata["score"] > 0


def test_the_retriever_by_session(shared: Memory) -> None:
    (found, *_) = shared.user("ana").as_retriever(by="session").invoke("garden", k=3)
    assert found.metadata["session_id"] == "s"
