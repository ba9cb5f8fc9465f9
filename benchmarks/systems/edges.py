"""ActMem's sweep: only semantic edges from a cosine on are followed (its table 2)."""

from unittest.mock import patch

from sqlalchemy import Connection, func, select

from benchmarks.data.items import Question
from benchmarks.readers import ContextReader, Reply
from benchmarks.systems.ours import Reasoning, SharedMemory
from langmem_graph.embeddings.embedder import Vectors
from langmem_graph.reasoning import counterfactual
from langmem_graph.results import Fact
from langmem_graph.retrieval.example_search import linked_facts
from langmem_graph.retrieval.search_common import UserSearch
from langmem_graph.storage.effects import ACTIVE
from langmem_graph.storage.graph_neighbours import SEMANTIC
from langmem_graph.storage.tables import links, records


class Edges(Reasoning):
    """`ours-reason` with fewer edges, which also tells how dense its graph is.

    Args:
        floor: cosine from which semantic edges are followed.
        shared: a memory whose records got edges from that cosine on, or from a lower
            one.
    """

    def __init__(self, floor: float, shared: SharedMemory) -> None:
        settings = {"reasoning": {"semantic_edge_floor": floor}}
        super().__init__(f"edges from {floor}", shared, settings)
        self._floor = floor

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """The same, with the mean degree and the facts that edges of both kinds
        brought.
        """
        brought: list[int] = []

        def counted(
            search: UserSearch, seeds: list[Fact], queries: Vectors
        ) -> list[Fact]:
            found = linked_facts(search, seeds, queries)
            brought.append(len(found))
            return found

        # no report tells it
        with patch.object(counterfactual, "linked_facts", counted):
            reply = super().answer(question, k, reader)
        reply.graph = {
            "degree": self.shared.read(self._degree),
            "facts": float(sum(brought)),
        }
        return reply

    def _degree(self, connection: Connection) -> float:
        """Semantic edges of an active record, on average."""
        followed = links.c.weight >= self._floor, links.c.kind == SEMANTIC
        edges = (
            connection.scalar(select(func.count()).select_from(links).where(*followed))
            or 0
        )
        active = (
            select(func.count()).select_from(records).where(records.c.status == ACTIVE)
        )
        return 2 * edges / max(1, connection.scalar(active) or 0)
