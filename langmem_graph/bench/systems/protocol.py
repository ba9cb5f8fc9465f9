"""What a memory must do to be measured; a class with these six is all it takes to add one."""

from typing import Protocol

from langmem_graph.bench.items import Question, Session
from langmem_graph.bench.readers import ContextReader, Passage, Reply
from langmem_graph.bench.speaking import Spent
from langmem_graph.user import By


class System(Protocol):
    """A memory: sessions go in, in order; questions come in between and at the end."""

    name: str

    def add(self, session: Session) -> Spent:
        """Take in a session, and say what it cost."""

    def search(self, query: str, k: int, by: By) -> list[Passage]:
        """The best `k`, best first; their ids are of messages or of sessions, as `by` says."""

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """Answer; most systems give what they find to `reader.read_passages`."""

    def size(self) -> int:
        """Bytes on disk, 0 for what is held in memory alone."""

    def close(self) -> None:
        """Release everything; safe to call twice."""
