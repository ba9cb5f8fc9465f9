"""`Memory`: the memories of many users in one directory. `UserMemory`: the memory of one user."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from langmem_graph.async_methods import no_attribute, twin
from langmem_graph.editing_methods import EditingMethods
from langmem_graph.embeddings.embedder import load_embedder
from langmem_graph.errors import InvalidInputError
from langmem_graph.filters import Where, parsed
from langmem_graph.inspection_methods import AllUsersMethods, InspectionMethods
from langmem_graph.messages import message_ids, to_utc, user_key
from langmem_graph.metadata import Value
from langmem_graph.model_methods import ModelMethods
from langmem_graph.reading import Readings, check_reading
from langmem_graph.redaction import Redact
from langmem_graph.reports import AddReport, EraseReport, Health
from langmem_graph.retention_methods import MemoryRetention, UserRetention
from langmem_graph.retrieval import fast_recall, joined_search
from langmem_graph.room_access import Authorize, RoomAccess
from langmem_graph.room_keys import room_names
from langmem_graph.schemas import MessageHit, Origin, Record, RecordHit, SearchBy
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.storage import (
    add_messages,
    add_records,
    deletion,
    doctor_and_rebuild,
    message_queries,
    record_history,
)
from langmem_graph.storage.memory_services import Services, is_database, open_rooms
from langmem_graph.tracing import observe_due, traced

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from langchain_core.embeddings import Embeddings
    from psycopg_pool import ConnectionPool

    from langmem_graph.causal import CausalScorer
    from langmem_graph.pipelines import Pipelines
    from langmem_graph.reports import RecordsReport
    from langmem_graph.retriever import MemoryRetriever
    from langmem_graph.schemas import Message
    from langmem_graph.shared_memory import SharedMemory

Id = str | int


class Memory(MemoryRetention, AllUsersMethods):
    """Long-term memory of many users in one directory.

    Examples:
        ```python
        with Memory("./memory") as memory:
            alice = memory.user("alice")
            alice.add([{"role": "user", "content": "My flight is on Friday."}], session_id="1")
            print(alice.recall("When do I fly?").context)
        ```

    Args:
        path: the directory; made when missing. Or a PostgreSQL database for several hosts
            (`postgresql://USER@HOST/NAME`, prepared by `langmem-graph migrate`), or a
            `psycopg_pool.ConnectionPool` of it.
        chroma: None keeps the vectors in the directory. A URL (`http://localhost:8000`) or a
            Chroma client uses that server; several processes of this host may then share `path`.
        model: for extraction and reasoning: a LangChain chat model, or a name that
            `init_chat_model` takes (`openai:gpt-4o-mini`). None keeps and finds messages only.
        embeddings: None is MiniLM on this machine (English); or a LangChain `Embeddings` object, or
            a name that `init_embeddings` takes. Always give the same for one directory.
        causal_scorer: `verifier` (the model judges), `none`, or one of `langmem_graph.causal`.
        settings: everything else, see `Settings`.
        redact: takes a text and returns what of it may be stored; see docs/scopes.md.
        authorize: a function of user, room and action (`read`, `write`), sync or async, which says
            who may use which shared room; it is asked at every call. None: nobody.
        reading: what a model shall look for beside its own rules, in which forms, and what never;
            a `Reading`, or a function that gives one for a user's id; see docs/scopes.md.
        read_only: read beside a process that writes, without Chroma: searches compare every vector.

    Raises:
        MemoryLockedError: when another process writes to this directory.
        StorageError: when the directory cannot be used.
        InvalidInputError: when an argument cannot be used.
    """

    def __init__(
        self,
        path: "str | os.PathLike[str] | ConnectionPool",
        *,
        chroma: "str | ClientAPI | None" = None,
        model: Any = None,
        embeddings: "Embeddings | str | None" = None,
        causal_scorer: "CausalScorer | str" = "verifier",
        settings: Settings | None = None,
        read_only: bool = False,
        redact: Redact | None = None,
        authorize: Authorize | None = None,
        reading: Readings | None = None,
    ) -> None:
        if not isinstance(settings, Settings | None):
            raise InvalidInputError(f"settings must be a Settings() object, not {settings!r}.")
        if redact is not None and not callable(redact):
            raise InvalidInputError(f"redact must be a function of a text, not {redact!r}.")
        check_reading(reading)
        self.settings = settings or Settings()
        self.has_model = model is not None
        given: Any = path
        self.path = None if is_database(path) else Path(given).expanduser()
        self._access = RoomAccess(authorize, self.settings.authorize_seconds)
        embedder = load_embedder(embeddings)
        embedder.seconds = self.settings.embed_seconds
        rooms = open_rooms(path, self.settings, chroma, read_only)
        self._services = Services(rooms, embedder, self.settings, read_only, redact, reading)
        self._pipelines: Pipelines | None = None
        self._closed = False
        observe_due(self)
        if model is not None:  # LangChain's models are slow to import
            from langmem_graph.pipelines import Pipelines as Opened

            self._pipelines = Opened.open(self._services, model, causal_scorer)

    def __repr__(self) -> str:
        return f"Memory({self._services.directory.place})"

    if not TYPE_CHECKING:  # type checkers go on naming what is not there

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, UserMemory)

    @classmethod
    def from_environment(cls) -> Self:
        """The memory that `LANGMEM_GRAPH_DIR` or else `POSTGRES_URI` names (default `./memory`).

        `LANGMEM_GRAPH_CHROMA`, `_EMBEDDINGS` and `_MODEL` stand for the arguments of these names.
        """
        names = ("CHROMA", "EMBEDDINGS", "MODEL", "DIR")
        chroma, embeddings, model, path = (os.getenv(f"LANGMEM_GRAPH_{n}") or None for n in names)
        path = path or os.getenv("POSTGRES_URI") or "memory"
        return cls(path, chroma=chroma, model=model, embeddings=embeddings)

    def user(self, user_id: Id, *, shared: Sequence[Id] = ()) -> "UserMemory":
        """The memory of one user. `7` and `"7"` are the same user.

        With `shared` it also recalls and searches in these shared rooms, as far as the user may
        read them; what it changes is the user's own room alone.

        Raises:
            MissingUserError: the id is empty or missing.
            StorageError: with `read_only`, when nothing is stored of this user.
        """
        rooms = (self._access, room_names(shared))
        return UserMemory(self._services, user_key(user_id), self._pipelines, *rooms)

    def shared(self, room: Id, *, as_user: Id) -> "SharedMemory":
        """A room of several users, used by one of them, who is the author of what is added.

        Every method asks `authorize`, and raises RoomRefusedError where the answer is no.

        Raises:
            RoomRefusedError: this memory has no `authorize`.
            InvalidInputError: a name that cannot be stored.
        """
        from langmem_graph.shared_memory import SharedMemory

        return SharedMemory(self._services, self._pipelines, self._access, room, as_user)

    def close(self) -> None:
        """Finish due work, release all files and let other processes in. Safe to call twice."""
        if self._closed:
            return
        self._closed, until = True, monotonic() + self.settings.storage.closing_seconds
        try:
            if self._pipelines is not None:
                self._pipelines.close(until)
        finally:
            self._services.close(until)


class UserMemory(EditingMethods, InspectionMethods, ModelMethods, UserRetention):
    """The memory of one user, from `memory.user(id)`. Asynchronous twins begin with `a` (`aadd`).

    Times are given as a datetime, ISO text or epoch seconds; naive ones are UTC. All methods raise
    `ClosedMemoryError` after `memory.close()`.
    """

    @traced
    def add(
        self,
        messages: Any,
        *,
        session_id: Id,
        at: object = None,
        origin: Origin | None = None,
        whole_conversation: bool = False,
        metadata: Mapping[str, Value] | None = None,
        agent_id: Id | None = None,
    ) -> AddReport:
        """Store messages of one session; what the report acknowledges is on disk.

        Args:
            messages: LangChain messages, pairs of role and text, or dicts with `role`, `content`
                and optional `id`, `name` (the speaker), `at` (or `timestamp`), `origin`, `metadata`
                and `agent_id`; one or a list of them.
            session_id: the conversation they belong to.
            at: when messages without a time were said; default now.
            origin: whose words they are, where a message does not say; default by role. It may
                only lower the trust: a pasted document is `import`, never the other way round.
            whole_conversation: the list is the conversation so far, as stateless clients send it
                with every turn: what it repeats of the session is known, even under new ids.
            metadata: what readers can filter by (`where`), such as `{"project": "atlas"}`: texts,
                numbers, True and False. A message's own `metadata` is added to it.
            agent_id: the agent that they are of, where there are several.

        Returns:
            What happened to each message; one that cannot be stored is rejected with its reason.

        Raises:
            InvalidInputError: no usable session id, time, origin, metadata or list.
            StorageError: the ledger cannot be written; nothing was acknowledged.
            EmbedderMismatchError: the stored vectors were made by another embedder.
        """
        about: dict[str, Any] = {"origin": origin, "metadata": metadata, "agent_id": agent_id}
        return add_messages.add_messages(
            self._services, self.id, messages, session_id, at, whole_conversation, **about
        )

    aadd = twin(add)

    @traced
    def search_conversation(
        self,
        query: str,
        k: int = 5,
        by: SearchBy = "message",
        *,
        explain: bool = False,
        ranking: RankingMethod | None = None,
        where: Where | None = None,
    ) -> list[MessageHit]:
        """Find messages without calling a model, best first; what no longer holds is labelled.

        Args:
            query: what to look for, in plain words.
            k: the largest number of hits.
            by: `message`, or `session` to rank sessions, each represented by its best message.
            explain: fill the hits' `signals`; the next three follow them and say why (`missed`).
            ranking: instead of `Settings.ranking.method`, for this call.
            where: only what passes this filter, such as `{"project": "atlas"}`; see
                docs/scopes.md.

        Raises:
            InvalidInputError: an empty query, `k` below 1, an unknown `by` or an unusable filter.
        """
        return fast_recall.search_conversation(
            self._along(), self.id, query, k, by, explain, ranking, where
        )

    asearch_conversation = twin(search_conversation)

    @traced
    def add_records(self, records: Any) -> "RecordsReport":
        """Store records made elsewhere, without a model.

        Args:
            records: `Record`s, or dicts with `text` and `source_message_ids` (stored messages), and
                optionally any other field of `Record`; and `changes`, as `export_records` gives.

        Returns:
            What happened to each. Where a current record says the same, the sources support that
            one.

        Raises:
            InvalidInputError: no list of records, or nothing is stored of this user.
            StorageError: the ledger cannot be written; nothing was acknowledged.
        """
        return add_records.add_records(self._services, self.id, records, "import")

    aadd_records = twin(add_records)

    @traced
    def search_records(
        self,
        query: str,
        k: int = 5,
        *,
        as_of: object = None,
        explain: bool = False,
        where: Where | None = None,
    ) -> list[RecordHit]:
        """Find records without calling a model, best first; what no longer holds is labelled.

        Args:
            query: what to look for, in plain words.
            k: the largest number of hits; a record counts as one with what it superseded.
            as_of: what held at this time, instead of what holds now.
            explain: put each signal's value into the hits' `signals`.
            where: a filter that all messages must pass which carry a record; see docs/scopes.md.

        Raises:
            InvalidInputError: an empty query, `k` below 1, no time, or an unusable filter.
        """
        options = (as_of, explain, where)
        return joined_search.search_records(self._along(), self.id, query, k, *options)

    asearch_records = twin(search_records)

    def get_records(self, ids: str | Sequence[str], *, where: Where | None = None) -> list[Record]:
        """The records with these ids, whatever their status; unknown ids are left out.

        With `where`, also those that do not pass the filter.
        """
        named = message_ids(ids)
        return self._read_along(where, lambda c: record_history.get_records(c, named))

    aget_records = twin(get_records)

    def get_conversation(
        self, ids: str | Sequence[str], *, where: Where | None = None
    ) -> "list[Message]":
        """The messages with these ids, in the order asked; unknown ids are left out.

        With `where`, also those that do not pass the filter.
        """
        named = message_ids(ids)
        return self._read_along(where, lambda c: record_history.get_conversation(c, named))

    aget_conversation = twin(get_conversation)

    def sessions(self, *, where: Where | None = None) -> list[message_queries.SessionSummary]:
        """All sessions at a glance, in the order they began; of messages that pass `where` only."""
        return self._read_within(where, message_queries.session_summaries)

    asessions = twin(sessions)

    def export(self, *, where: Where | None = None) -> list[dict[str, Any]]:
        """Every message as a JSON-shaped dict that `add` and `langmem-graph import` take back.

        With `where`, those that pass the filter.
        """
        return self._read_within(where, record_history.export_messages)

    aexport = twin(export)

    def export_records(
        self, *, as_of: object = None, history: bool = False, where: Where | None = None
    ) -> list[dict[str, Any]]:
        """Every record that holds now, as a dict that `add_records` takes back; oldest first.

        Args:
            as_of: what held at this time instead, as it was then.
            history: also what holds no longer, with its `labels`, and what messages did to each
                record (`changes`).
            where: a filter that all messages must pass which carry a record.
        """
        then = to_utc(as_of) if as_of is not None else None
        rows = partial(record_history.export_records, as_of=then, history=history)
        return self._read_within(where, rows)

    aexport_records = twin(export_records)

    def as_retriever(
        self, *, k: int = 5, by: SearchBy = "message", where: Where | None = None
    ) -> "MemoryRetriever":
        """This memory as a LangChain retriever, sync and async; options as for searching.

        A `where` that is given to `invoke` narrows this one.
        """
        from langmem_graph.retriever import MemoryRetriever

        parsed(where)  # raises for an unusable one
        return MemoryRetriever(user=self, k=k, by=by, where=where)

    @traced
    def erase(self) -> EraseReport:
        """Delete everything of this user: the ledger, its log, the vectors, the folder.

        What the user wrote in shared rooms stays; the report names these.
        """
        self._check_writable("erase")
        return deletion.erase(self._services, self.id)

    aerase = twin(erase)

    def doctor(self, *, sample: int = 200) -> Health:
        """Compare the ledger with the index, looking up `sample` vectors in Chroma (0: all)."""
        return doctor_and_rebuild.examine(self._services, self.id, sample)

    adoctor = twin(doctor)

    @traced
    def rebuild(self, *, reembed: bool = False) -> Health:
        """Rebuild the index from the ledger's vectors; `reembed` also embeds every text anew."""
        self._check_writable("rebuild")
        return doctor_and_rebuild.rebuild(self._services, self.id, reembed)

    arebuild = twin(rebuild)
