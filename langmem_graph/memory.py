"""`Memory`: a directory of users' memories, opened once per process."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from langmem_graph import pipelines, schemas
from langmem_graph.async_methods import UserMemory
from langmem_graph.embeddings.embedder import load_embedder
from langmem_graph.errors import InvalidInputError, ReadOnlyError
from langmem_graph.messages import message_ids, to_utc, user_key
from langmem_graph.pipelines import Pipelines, no_model_report
from langmem_graph.reports import (
    AddReport,
    EraseReport,
    FlushReport,
    ForgetReport,
    Health,
    RecordsReport,
)
from langmem_graph.retrieval import fast_recall, record_search
from langmem_graph.runtime import Closing
from langmem_graph.schemas import (
    GroundedCall,
    HistoryEntry,
    Message,
    MessageHit,
    Recall,
    RecallMode,
    RecallRequest,
    Record,
    RecordHit,
)
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage import (
    add_messages,
    add_records,
    deletion,
    files,
    health,
    message_queries,
    record_history,
)
from langmem_graph.storage.directory import MemoryDirectory
from langmem_graph.storage.services import Services
from langmem_graph.tracing import traced

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings

    from langmem_graph.causal.scorers import CausalScorer
    from langmem_graph.grounding.state import Policy
    from langmem_graph.reasoning.graph import OnEvent
    from langmem_graph.retriever import MemoryRetriever

By = Literal["message", "session"]


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
            itself, `none` nobody; or a scorer of `langmem_graph.causal`, see docs/causal.md.
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
        root = MemoryDirectory.open(
            Path(path).expanduser(), self.settings, chroma=chroma, read_only=read_only
        )
        self._services = Services(root, embedder, self.settings, read_only)
        self._pipelines = self._open_mind(model, causal_scorer) if model is not None else None

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

    def _open_mind(self, model: Any, causal: "CausalScorer | str") -> "Pipelines":
        from langmem_graph.causal.scorers import create_causal_scorer

        try:
            if isinstance(causal, str):
                scorer = None if causal == "none" else create_causal_scorer(cast(Any, causal))
            else:
                scorer = causal
            return Pipelines(self._services, model, scorer)
        except BaseException:
            self._services.close()
            raise

    @property
    def has_model(self) -> bool:
        """True when a model reads what is written, and reasoning is possible."""
        return self._pipelines is not None

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
        return UserMemory(self._services, user_key(user_id), self._pipelines)

    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""
        if not self._services.closed:
            try:
                if self._pipelines is not None:
                    self._pipelines.close()
            finally:
                self._services.close()


def check_memory(given: object) -> None:
    """Raise unless it is a `Memory`; a turn would take anything else for a memory that fails."""
    if not isinstance(given, Memory):
        what = given if isinstance(given, str) else getattr(given, "__name__", type(given).__name__)
        raise InvalidInputError(
            f"{what!r} is not a Memory. Open one and give it: memory = Memory(path)."
        )


class SyncUserMemory:
    """What `UserMemory` does; its asynchronous twins are in `user.py`."""

    def __init__(self, services: Services, user_id: str, mind: "Pipelines | None" = None) -> None:
        self._services = services
        self._pipelines = mind
        self.id = user_id

    @property
    def settings(self) -> Settings:
        """The settings of the memory."""
        return self._services.settings

    @traced
    def add(
        self,
        messages: Any,
        *,
        session_id: str | int,
        at: object = None,
        whole_conversation: bool = False,
    ) -> AddReport:
        """Store messages of one session. What the report acknowledges is on disk.

        Args:
            messages: a LangChain message, a dict with `role`, `content` and optional `id`, `name`
                (the speaker) and `at`, or a list of them.
            session_id: the conversation they belong to.
            at: when they were said, for messages that carry no time; default now. A datetime, ISO
                text or epoch seconds; naive times are UTC.
            whole_conversation: the list is the conversation so far, as a stateless client sends it
                with every turn: what it repeats of the session is known, even under new ids.

        Returns:
            What happened to each message. A message that cannot be stored is rejected with its
            reason and does not keep the others out.

        Raises:
            InvalidInputError: no usable session id, time or list.
            StorageError: the ledger cannot be written; nothing was acknowledged.
            EmbedderMismatchError: the user's vectors were made by another embedder.
        """
        return add_messages.add_messages(
            self._services,
            self.id,
            messages,
            session_id=session_id,
            at=at,
            whole_conversation=whole_conversation,
        )

    @traced
    def flush(self) -> FlushReport:
        """Let the model read everything that waits, and come back when it has.

        Returns:
            What became of it and what it cost; `status="no_model"` where the memory has no model.
            What could not be read stays due.
        """
        self._writable("flush")
        return (
            self._pipelines.flush(self.id)
            if self._pipelines
            else no_model_report(self._services, self.id)
        )

    def flush_soon(self) -> None:
        """Let the model read what is due, in the background; at once back. Nothing without a model.

        `add` does not do this by itself; nodes and middleware do.
        """
        if self._pipelines is not None and not self._services.read_only:
            self._pipelines.background.notify(self.id)

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until what is due for reading has been read in the background.

        Turns that are too few for a batch are not due; `flush` reads them too.

        Args:
            timeout: seconds; None waits for as long as it takes.

        Returns:
            False when the time was not enough.
        """
        self._writable("drain")
        if self._pipelines is None:
            return True
        return self._pipelines.loop.run(self._pipelines.background.drained(self.id, timeout))

    @traced
    def search_conversation(
        self,
        query: str,
        k: int = 5,
        by: By = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
    ) -> list[MessageHit]:
        """Find messages without calling a model, best first.

        Args:
            query: what to look for, in plain words.
            k: how many hits at most.
            by: `message`, or `session` to rank sessions, each represented by its best message.
            explain: put each signal's value into the hits' `signals`.
            ranking: instead of `Settings.ranking`, for this call.

        Raises:
            InvalidInputError: an empty query, `k` below 1 or an unknown `by`.
        """
        return fast_recall.search_conversation(
            self._services, self.id, query, k, by, explain, ranking
        )

    @traced
    def recall(
        self,
        query: str,
        *,
        k: int | None = None,
        max_tokens: int | None = None,
        in_view: Sequence[str] = (),
        mode: RecallMode = "fast",
        at: object = None,
        on_event: "OnEvent | None" = None,
    ) -> Recall:
        """What a model should see before it answers `query`: a quoted context and its evidence.

        Args:
            query: usually the user's last message.
            k: messages to consider; default `Settings.recall_k`.
            max_tokens: budget of the context; default `Settings.context_tokens`.
            in_view: ids or texts of messages that the model sees anyway; they are not quoted.
            mode: `fast` looks once and calls no model. `auto` and `reason` chain backwards over
                memory, and ask what could go wrong where the request is an act: 1 to 7 model
                calls, within `Settings.recall_calls`. `auto` calls none for mere small talk.
                In every mode a time that the words name is compared with the schedule.
            at: when it is asked, for what "tomorrow" and "next" are; default now.
            on_event: with a model, is called with each step as it happens, in the memory's own
                thread: be quick, and do not call this memory from it.

        Returns:
            `context` (empty when nothing was found), `evidence` best first, and a `report` with
            the status, the cost and the milliseconds of each stage. With reasoning also what it
            came to, the facts, and the `trace`.

        Raises:
            InvalidInputError: an empty query, an unusable option, or a mode that needs a model
                where the memory has none.
        """
        if mode == "fast":
            return fast_recall.fast_recall(
                self._services, self.id, query, k, max_tokens, in_view, at
            )
        request = RecallRequest(query, mode, k, max_tokens, in_view, pipelines.iso(at))
        mind = pipelines.checked_recall(self._pipelines, self.settings, request)
        return mind.loop.run(mind.reasoner.recall(self.id, request, on_event))

    @traced
    def add_records(self, records: Any) -> RecordsReport:
        """Store records made elsewhere, without a model.

        Args:
            records: dicts with `text` and `source_message_ids` (stored messages), and optionally
                any other field of `Record`; or `Record`s.

        Returns:
            What happened to each. What says exactly the same as a record that is true now is known,
            and adds its sources to that one.

        Raises:
            InvalidInputError: no list of records.
            StorageError: the ledger cannot be written; nothing was acknowledged.
        """
        return add_records.add_records(self._services, self.id, records, "import")

    @traced
    def search_records(
        self, query: str, k: int = 5, *, as_of: object = None, explain: bool = False
    ) -> list[RecordHit]:
        """Find records without calling a model, best first.

        Args:
            query: what to look for, in plain words.
            k: how many hits at most.
            as_of: what was true at this time, instead of what is true now.
            explain: put each signal's value into the hits' `signals`.

        Raises:
            InvalidInputError: an empty query, `k` below 1, or no time.
        """
        return record_search.search_records(self._services, self.id, query, k, as_of, explain)

    def get_records(self, ids: str | Sequence[str]) -> list[Record]:
        """The records with these ids, whatever their status; unknown ids are left out."""
        return record_history.get_records(self._services, self.id, message_ids(ids))

    def files(self) -> list[str]:
        """The names of the profile, the index and the topic tracks, as `read_file` takes them."""
        return list(files.stored_files(self._services, self.id))

    def read_file(self, name: str) -> str:
        """The profile (`profile.md`), the index (`index.md`) or a topic track, as Markdown.

        Raises:
            InvalidInputError: a name that `files` does not list.
        """
        return files.read_file(self._services, self.id, name)

    def export_records(
        self, *, as_of: object = None, history: bool = False
    ) -> list[dict[str, Any]]:
        """Every record that is true now, as a dict that `add_records` takes back; oldest first.

        Args:
            as_of: what was true at this time instead.
            history: also what is no longer true.
        """
        then = to_utc(as_of) if as_of is not None else None
        found = record_history.all_records(self._services, self.id, then, history=history)
        return [schemas.record_row(record) for record in found]

    @traced
    def remember(self, text: str) -> Record:
        """Store a sentence by hand: as a message of its own and as a record that cites it.

        Raises:
            InvalidInputError: no words, or too many (`Settings.max_record_chars`).
        """
        self._writable("remember")
        return add_records.remember(self._services, self.id, text)

    @traced
    def forget(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetReport:
        """Delete a record, a message or a session for good, with everything made of it.

        Records made of a forgotten message go whole; their other messages are read anew. What a
        forgotten record had superseded is true again. The words leave the disk as well.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        self._writable("forget")
        return deletion.forget(
            self._services, self.id, record=record, message=message, session=session
        )

    def history(self, record_id: str) -> list[HistoryEntry]:
        """Every change of a record and of those in its line, oldest first."""
        return record_history.history(self._services, self.id, record_id)

    def undo(self, record_id: str) -> list[Record]:
        """Take back the latest change that touched a record, in all records it touched.

        Returns:
            Those records as they are now; empty when there is nothing to take back.

        Raises:
            InvalidInputError: there is no such record, or later changes were made on top of its
                latest one; the error names what to undo first.
        """
        self._writable("undo")
        return record_history.undo(self._services, self.id, record_id)

    def as_retriever(self, *, k: int = 5, by: By = "message") -> "MemoryRetriever":
        """This memory as a LangChain retriever, sync and async.

        Args:
            k: how many documents at most; `retriever.invoke(query, k=…)` overrides it.
            by: as for `search_conversation`.
        """
        from langmem_graph.retriever import MemoryRetriever

        return MemoryRetriever(user=self, k=k, by=by)

    def get_conversation(self, ids: str | Sequence[str]) -> list[Message]:
        """The messages with these ids, in the order asked; unknown ids are left out."""
        wanted = message_ids(ids)
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.read_transaction() as connection:
            found = message_queries.messages_by_id(connection, wanted)
        return [found[one] for one in dict.fromkeys(wanted) if one in found]

    def sessions(self) -> list[message_queries.SessionSummary]:
        """All sessions at a glance, in the order they began."""
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.read_transaction() as connection:
            return message_queries.session_summaries(connection)

    def export(self) -> list[dict[str, Any]]:
        """Every message as a JSON-shaped dict that `add` and `langmem-graph import` take back."""
        if not self._services.has(self.id):
            return []
        with self._services.room(self.id) as room, room.database.read_transaction() as connection:
            return [
                schemas.message_row(message) for message in message_queries.all_messages(connection)
            ]

    @traced
    def erase(self) -> EraseReport:
        """Delete everything of this user: the ledger, its log, the vectors, the folder."""
        self._writable("erase")
        return deletion.erase(self._services, self.id)

    def doctor(self, *, sample: int = 200) -> Health:
        """Compare the ledger with the index: what is missing, and whether Chroma finds vectors.

        Args:
            sample: how many vectors to look up in Chroma; 0 for all.
        """
        return health.examine(self._services, self.id, sample)

    @traced
    def rebuild(self, *, reembed: bool = False) -> Health:
        """Make the index anew from the ledger's vectors.

        Args:
            reembed: also embed every message anew, after a change of embedder.
        """
        self._writable("rebuild")
        return health.rebuild(self._services, self.id, reembed)

    @traced
    def ground(
        self, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> GroundedCall:
        """Fill a tool call's arguments from memory, each with where it comes from.

        Args:
            tool: a LangChain tool, a pydantic model, an OpenAI function or a JSON schema with a
                title; or a list of these to choose from.
            request: what the user asks for, such as "book that flight with my usual seat".
            policy: what becomes of an inferred value that does not surely follow: `flag` keeps it
                with a warning, `drop` leaves it out, `ask` names it as missing.
            at: when it is asked; default now.

        Returns:
            Schema-valid arguments, their grounding, and what is `missing`, which is never invented.
            One to three model calls.

        Raises:
            InvalidInputError: an unusable tool, request or option, or a memory without a model.
        """
        mind, asked = pipelines.checked_grounding(self._pipelines, tool, request, policy, at)
        return mind.loop.run(mind.grounder.ground(self.id, asked))

    def _writable(self, what: str) -> None:
        if self._services.read_only:
            raise ReadOnlyError(f"{what} needs a memory opened for writing, not read_only=True.")
