"""`Memory`: a directory of users' memories, opened once per process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from langmem_graph.closing import Closing
from langmem_graph.config import Settings
from langmem_graph.embeddings._embedder import load_embedder
from langmem_graph.errors import InvalidInputError
from langmem_graph.intake import user_key
from langmem_graph.services import Services
from langmem_graph.store.root import Root
from langmem_graph.user import UserMemory

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings

    from langmem_graph.link.causal import CausalScorer
    from langmem_graph.write.mind import Mind


class Memory(Closing):
    """Long-term memory of many users in one directory.

    Example:
        ```python
        with Memory("./memory") as memory:
            alice = memory.user("alice")
            alice.add([{"role": "user", "content": "My flight is on Friday."}], session_id="1")
            print(alice.recall("When do I fly?").context)
        ```

    Args:
        path: the directory; made when missing.
        chroma: None keeps each user's vectors in the directory. A URL such as
            `http://localhost:8000`, or a Chroma client, uses that server; then several processes
            on this host may share the directory.
        model: reads new messages and keeps records, topics and a profile of them: a name that
            `init_chat_model` takes (`openai:gpt-4o-mini`), or any LangChain chat model. None keeps
            and finds messages alone.
        embeddings: None is MiniLM on this machine (English). A LangChain `Embeddings` object, or a
            name that `init_embeddings` takes, uses that one. Always give the same for one
            directory. `"hash"` is a test embedder without meaning.
        causal_scorer: with a model, who judges what brought about what: `verifier` is the model
            itself, `none` nobody; or a scorer of `langmem_graph.link.causal`, see docs/causal.md.
        settings: everything else, see `Settings`.
        read_only: only look, beside a process that writes; Chroma is not opened and searches
            compare with every vector.

    Raises:
        MemoryLockedError: when another process writes to this directory.
        StorageError: when the directory cannot be used.
        InvalidInputError: when an argument cannot be used.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        chroma: "str | ClientAPI | None" = None,
        model: Any = None,
        embeddings: "Embeddings | str | None" = None,
        causal_scorer: "CausalScorer | str" = "verifier",
        settings: Settings | None = None,
        read_only: bool = False,
    ) -> None:
        if not isinstance(settings, Settings | None):
            raise InvalidInputError(f"settings must be a Settings() object, not {settings!r}.")
        self.settings = settings or Settings()
        embedder = load_embedder(embeddings)
        root = Root.open(Path(path).expanduser(), self.settings, chroma=chroma, read_only=read_only)
        self._services = Services(root, embedder, self.settings, read_only)
        self._mind = self._open_mind(model, causal_scorer) if model is not None else None

    @classmethod
    def from_environment(cls) -> Self:
        """The memory that the environment names, as the command line and the served graphs use it.

        `LANGMEM_GRAPH_DIR` is the directory (default `./memory`), `LANGMEM_GRAPH_CHROMA` the URL of
        a Chroma server, `LANGMEM_GRAPH_EMBEDDINGS` the embedder's name, `LANGMEM_GRAPH_MODEL` the
        model's.
        """
        return cls(
            os.environ.get("LANGMEM_GRAPH_DIR") or "memory",
            chroma=os.environ.get("LANGMEM_GRAPH_CHROMA") or None,
            model=os.environ.get("LANGMEM_GRAPH_MODEL") or None,
            embeddings=os.environ.get("LANGMEM_GRAPH_EMBEDDINGS") or None,
        )

    def _open_mind(self, model: Any, causal: "CausalScorer | str") -> "Mind":
        from langmem_graph.link.causal import create_causal_scorer
        from langmem_graph.write.mind import Mind  # LangChain's models are slow to import

        try:
            if isinstance(causal, str):
                scorer = None if causal == "none" else create_causal_scorer(cast(Any, causal))
            else:
                scorer = causal
            return Mind(self._services, model, scorer)
        except BaseException:
            self._services.close()
            raise

    @property
    def has_model(self) -> bool:
        """True when a model reads what is written, and reasoning is possible."""
        return self._mind is not None

    @property
    def path(self) -> Path:
        """The directory."""
        return self._services.root.path

    def user(self, user_id: str | int) -> UserMemory:
        """The memory of one user. `7` and `"7"` are the same user.

        Raises:
            MissingUserError: for an empty or missing id.
            StorageError: with `read_only`, for a user of whom nothing is stored.
        """
        return UserMemory(self._services, user_key(user_id), self._mind)

    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""
        if not self._services.closed:
            try:
                if self._mind is not None:
                    self._mind.close()
            finally:
                self._services.close()


def check_memory(given: object) -> None:
    """Raise unless it is a `Memory`; a turn would take anything else for a memory that fails."""
    if not isinstance(given, Memory):
        what = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        raise InvalidInputError(
            f"{what!r} is not a Memory. Open one and give it: memory = Memory(path)."
        )
