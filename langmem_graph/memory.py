"""`Memory`: the memories of many users in one directory. `UserMemory`: the memory of one user."""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langmem_graph.async_methods import AsyncMethods, Closing, open_pipelines
from langmem_graph.embeddings.embedder import load_embedder
from langmem_graph.errors import InvalidInputError
from langmem_graph.messages import message_ids, to_utc, user_key
from langmem_graph.reports import AddReport, EraseReport, FlushReport, ForgetReport, Health
from langmem_graph.retrieval import fast_recall, record_search
from langmem_graph.schemas import MessageHit, Recall, RecallMode, Record, RecordHit, SearchBy
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage import (
    add_messages,
    add_records,
    deletion,
    doctor_and_rebuild,
    message_queries,
    record_history,
    topic_file_rows,
)
from langmem_graph.storage.directory_and_lock import MemoryDirectory
from langmem_graph.storage.memory_services import Services
from langmem_graph.tracing import traced

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings

    from langmem_graph.causal import CausalScorer
    from langmem_graph.grounding.state import Policy
    from langmem_graph.reasoning.graph import OnEvent
    from langmem_graph.reports import RecordsReport
    from langmem_graph.retriever import MemoryRetriever
    from langmem_graph.schemas import GroundedCall, HistoryEntry, Message

Id = str | int


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
        chroma: None keeps the vectors in the directory. A URL (`http://localhost:8000`) or a
            Chroma client uses that server; several processes of this host may then share `path`.
        model: for extraction and reasoning: a LangChain chat model, or a name that
            `init_chat_model` takes (`openai:gpt-4o-mini`). None keeps and finds messages only.
        embeddings: None is MiniLM on this machine (English); or a LangChain `Embeddings` object, or
            a name that `init_embeddings` takes. Always give the same for one directory.
        causal_scorer: `verifier` (the model judges), `none`, or one of `langmem_graph.causal`.
        settings: everything else, see `Settings`.
        read_only: read beside a process that writes, without Chroma: searches compare every vector.

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
        self.has_model = model is not None
        self.path = Path(path).expanduser()
        embedder = load_embedder(embeddings)
        rooms = MemoryDirectory.open(self.path, self.settings, chroma=chroma, read_only=read_only)
        self._services = Services(rooms, embedder, self.settings, read_only)
        self._pipelines = open_pipelines(self._services, model, causal_scorer)

    @classmethod
    def from_environment(cls) -> Self:
        """The memory that `LANGMEM_GRAPH_DIR` names (default `./memory`).

        `LANGMEM_GRAPH_CHROMA`, `_EMBEDDINGS` and `_MODEL` stand for the arguments of these names.
        """
        names = ("CHROMA", "EMBEDDINGS", "MODEL", "DIR")
        chroma, embeddings, model, path = (os.getenv(f"LANGMEM_GRAPH_{n}") or None for n in names)
        return cls(path or "memory", chroma=chroma, model=model, embeddings=embeddings)

    def user(self, user_id: str | int) -> "UserMemory":
        """The memory of one user. `7` and `"7"` are the same user.

        Raises:
            MissingUserError: the id is empty or missing.
            StorageError: with `read_only`, when nothing is stored of this user.
        """
        return UserMemory(self._services, user_key(user_id), self._pipelines)

    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""
        if not self._services.closed:
            with closing(self._services):
                if self._pipelines is not None:
                    self._pipelines.close()


class UserMemory(AsyncMethods):
    """The memory of one user, from `memory.user(id)`. Asynchronous twins begin with `a` (`aadd`).

    Times are given as a datetime, ISO text or epoch seconds; naive ones are UTC. All methods raise
    `ClosedMemoryError` after `memory.close()`.
    """

    @traced
    def add(
        self, messages: Any, *, session_id: Id, at: object = None, whole_conversation: bool = False
    ) -> AddReport:
        """Store messages of one session; what the report acknowledges is on disk.

        Args:
            messages: LangChain messages, pairs of role and text, or dicts with `role`, `content`
                and optional `id`, `name` (the speaker) and `at`; one or a list of them.
            session_id: the conversation they belong to.
            at: when messages without a time were said; default now.
            whole_conversation: the list is the conversation so far, as stateless clients send it
                with every turn: what it repeats of the session is known, even under new ids.

        Returns:
            What happened to each message; one that cannot be stored is rejected with its reason.

        Raises:
            InvalidInputError: no usable session id, time or list.
            StorageError: the ledger cannot be written; nothing was acknowledged.
            EmbedderMismatchError: the stored vectors were made by another embedder.
        """
        return add_messages.add_messages(
            self._services, self.id, messages, session_id, at, whole_conversation
        )

    @traced
    def flush(self) -> FlushReport:
        """Run extraction on all pending messages and report what became of them and its cost.

        Without a model the status is `no_model`. What could not be extracted stays pending.
        """
        self._check_writable("flush")
        if self._pipelines is None:
            return add_messages.no_model_report(self._services, self.id)
        return self._pipelines.flush(self.id)

    def flush_soon(self) -> None:
        """Run extraction in the background, as nodes and middleware do; `add` itself does not."""
        if self._pipelines is not None and not self._services.read_only:
            self._pipelines.worker.notify(self.id)

    def drain(self, timeout: float | None = None) -> bool:
        """Wait until background extraction has caught up; False after `timeout` seconds.

        Turns that are too few for a batch are not due; `flush` processes them too.
        """
        self._check_writable("drain")
        return self._pipelines is None or self._pipelines.drain(self.id, timeout)

    @traced
    def search_conversation(
        self,
        query: str,
        k: int = 5,
        by: SearchBy = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
    ) -> list[MessageHit]:
        """Find messages without calling a model, best first.

        Args:
            query: what to look for, in plain words.
            k: the largest number of hits.
            by: `message`, or `session` to rank sessions, each represented by its best message.
            explain: put each signal's value into the hits' `signals`.
            ranking: instead of `Settings.ranking.method`, for this call.

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
            query: usually the user's last message; a time in it is compared with the schedule.
            k: messages to consider; default `Settings.context.k`.
            max_tokens: budget of the context; default `Settings.context.max_tokens`.
            in_view: ids or texts of messages that the model sees anyway; they are not quoted.
            mode: `fast` searches once and calls no model. `auto` and `reason` chain backwards over
                memory and ask what an act could cause: 1 to 7 calls (`auto`: 0 for small talk).
            at: when it is asked, which gives "tomorrow" and "next" their meaning; default now.
            on_event: called with each step of reasoning as it happens, in the memory's own thread:
                it must return soon, and must not call this memory.

        Returns:
            `context` (empty when nothing was found), `evidence` best first, and a `report` of
            status, cost and milliseconds; with reasoning also its outcome, facts and `trace`.

        Raises:
            InvalidInputError: an empty query, an unusable option, or no model for the mode.
        """
        limits = (k, max_tokens, in_view, at)
        if mode == "fast":
            return fast_recall.fast_recall(self._services, self.id, query, *limits)
        pipelines, request = self._reasoning(query, mode, *limits)
        return pipelines.recall(self.id, request, on_event)

    @traced
    def ground(
        self, tool: Any, request: str, *, policy: "Policy" = "flag", at: object = None
    ) -> "GroundedCall":
        """Fill a tool call's arguments from memory, each with where it comes from.

        Args:
            tool: a LangChain tool, pydantic model, OpenAI function or JSON schema with a title; or
                a list of these to choose from.
            request: what the user asks for, such as "book that flight with my usual seat".
            policy: of inferred values that do not surely follow: `flag` keeps them with a warning,
                `drop` leaves them out, `ask` names them as missing.
            at: when it is asked; default now.

        Returns:
            Schema-valid arguments, their grounding, and what is `missing`. 1 to 3 model calls.

        Raises:
            InvalidInputError: an unusable tool, request or option, or a memory without a model.
        """
        return self._with_model("ground").ground(self.id, tool, request, policy, at)

    @traced
    def add_records(self, records: Any) -> "RecordsReport":
        """Store records made elsewhere, without a model.

        Args:
            records: `Record`s, or dicts with `text` and `source_message_ids` (stored messages), and
                optionally any other field of `Record`.

        Returns:
            What happened to each. What a current record says already adds its sources to that one.

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
            k: the largest number of hits.
            as_of: what held at this time, instead of what holds now.
            explain: put each signal's value into the hits' `signals`.

        Raises:
            InvalidInputError: an empty query, `k` below 1, or no time.
        """
        return record_search.search_records(self._services, self.id, query, k, as_of, explain)

    def get_records(self, ids: str | Sequence[str]) -> list[Record]:
        """The records with these ids, whatever their status; unknown ids are left out."""
        return record_history.get_records(self._services, self.id, message_ids(ids))

    def get_conversation(self, ids: str | Sequence[str]) -> "list[Message]":
        """The messages with these ids, in the order asked; unknown ids are left out."""
        return record_history.get_conversation(self._services, self.id, message_ids(ids))

    def sessions(self) -> "list[message_queries.SessionSummary]":
        """All sessions at a glance, in the order they began."""
        return record_history.list_sessions(self._services, self.id)

    def export(self) -> list[dict[str, Any]]:
        """Every message as a JSON-shaped dict that `add` and `langmem-graph import` take back."""
        return record_history.export_messages(self._services, self.id)

    def export_records(
        self, *, as_of: object = None, history: bool = False
    ) -> list[dict[str, Any]]:
        """Every record that holds now, as a dict that `add_records` takes back; oldest first.

        Args:
            as_of: what held at this time instead.
            history: also what holds no longer.
        """
        then = to_utc(as_of) if as_of is not None else None
        return record_history.export_records(self._services, self.id, then, history=history)

    def files(self) -> list[str]:
        """The names of the profile, the index and the topic tracks, as `read_file` takes them."""
        return list(topic_file_rows.stored_files(self._services, self.id))

    def read_file(self, name: str) -> str:
        """The profile (`profile.md`), the index (`index.md`) or a topic track, as Markdown.

        Raises:
            InvalidInputError: a name that `files` does not list.
        """
        return topic_file_rows.read_file(self._services, self.id, name)

    @traced
    def remember(self, text: str) -> Record:
        """Store a sentence by hand: as a message of its own and as a record that cites it.

        Raises:
            InvalidInputError: no words, or more than `Settings.storage.max_record_chars`.
        """
        self._check_writable("remember")
        return add_records.remember(self._services, self.id, text)

    @traced
    def forget(
        self, *, record: str | None = None, message: str | None = None, session: str | None = None
    ) -> ForgetReport:
        """Delete a record, a message or a session with everything made of it, on the disk too.

        Records made of a forgotten message are deleted; their other messages become pending again.
        What a forgotten record had superseded holds again.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        self._check_writable("forget")
        named = {"record": record, "message": message, "session": session}
        return deletion.forget(self._services, self.id, **named)

    def history(self, record_id: str) -> "list[HistoryEntry]":
        """Every change of a record and of those it replaced or was replaced by, oldest first."""
        return record_history.history(self._services, self.id, record_id)

    def undo(self, record_id: str) -> list[Record]:
        """Take back the latest change that touched a record, in all records it touched.

        Returns:
            Those records as they are now; empty when there is nothing to take back.

        Raises:
            InvalidInputError: no such record, or later changes rest on it and must be undone first.
        """
        self._check_writable("undo")
        return record_history.undo(self._services, self.id, record_id)

    def as_retriever(self, *, k: int = 5, by: SearchBy = "message") -> "MemoryRetriever":
        """This memory as a LangChain retriever, sync and async; `k` and `by` as for searching."""
        from langmem_graph.retriever import MemoryRetriever

        return MemoryRetriever(user=self, k=k, by=by)

    @traced
    def erase(self) -> EraseReport:
        """Delete everything of this user: the ledger, its log, the vectors, the folder."""
        self._check_writable("erase")
        return deletion.erase(self._services, self.id)

    def doctor(self, *, sample: int = 200) -> Health:
        """Compare the ledger with the index, looking up `sample` vectors in Chroma (0: all)."""
        return doctor_and_rebuild.examine(self._services, self.id, sample)

    @traced
    def rebuild(self, *, reembed: bool = False) -> Health:
        """Rebuild the index from the ledger's vectors; `reembed` also embeds every text anew."""
        self._check_writable("rebuild")
        return doctor_and_rebuild.rebuild(self._services, self.id, reembed)
