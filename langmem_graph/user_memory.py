"""`UserMemory`: the memory of one user."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

from langmem_graph.editing_methods import EditingMethods
from langmem_graph.filters import Where, parsed
from langmem_graph.ids_and_times import message_ids, to_utc
from langmem_graph.inspection_methods import InspectionMethods
from langmem_graph.metadata import Value
from langmem_graph.model_methods import ModelMethods
from langmem_graph.operation import operation, twin
from langmem_graph.reports import AddReport, EraseReport, Health
from langmem_graph.results import SearchBy
from langmem_graph.retrieval import fast_recall
from langmem_graph.retrieval.search_common import check_choice, check_k
from langmem_graph.schemas import MessageHit, Origin, Record, RecordHit
from langmem_graph.settings import RankingMethod
from langmem_graph.storage import (
    add_messages,
    add_records,
    deletion,
    inspection_queries,
    message_queries,
    upkeep,
)

if TYPE_CHECKING:
    from langmem_graph.reports import RecordsReport
    from langmem_graph.retriever import MemoryRetriever
    from langmem_graph.schemas import Message

Id = str | int


class UserMemory(EditingMethods, InspectionMethods, ModelMethods):
    """The memory of one user, from `memory.user(id)`. Asynchronous twins begin with `a`
    (`aadd`).

    Times are given as a datetime, ISO text or epoch seconds; naive ones are UTC. All
    methods raise `ClosedMemoryError` after `memory.close()`.
    """

    @operation("write")
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
        given_before: Collection[str] = (),
    ) -> AddReport:
        """Store messages of one session; what the report acknowledges is on disk.

        Args:
            messages: LangChain messages, pairs of role and text, or dicts with `role`,
                `content` and optional `id`, `name` (the speaker), `at` (or
                `timestamp`), `origin`, `metadata` and `agent_id`; one or a list of
                them.
            session_id: the conversation they belong to.
            at: when messages without a time were said; default now.
            origin: whose words they are, where a message does not say; default by role.
                It may only lower the trust: a pasted document is `import`, never the
                other way round.
            whole_conversation: the list is the conversation so far, as stateless
                clients send it with every turn: what it repeats of the session is
                known, even under new ids.
            metadata: what readers can filter by (`where`), such as `{"project":
                "atlas"}`: texts, numbers, True and False. A message's own `metadata` is
                added to it.
            agent_id: the agent that they are of, where there are several.
            given_before: ids of messages that an earlier call has stored. Of those,
                what memory does not have any more was forgotten, erased or expired, and
                is not stored again.

        Returns:
            What happened to each message; one that cannot be stored is rejected with
            its reason.

        Raises:
            InvalidInputError: no usable session id, time, origin, metadata or list.
            StorageError: the ledger cannot be written; nothing was acknowledged.
            EmbedderMismatchError: the stored vectors were made by another embedder.
        """
        about: dict[str, Any] = {
            "origin": origin,
            "metadata": metadata,
            "agent_id": agent_id,
        }
        about |= {"given_before": given_before, "author": self._author}
        return add_messages.add_messages(
            self._services,
            self.id,
            messages,
            session_id,
            at,
            whole_conversation,
            **about,
        )

    aadd = twin(add)

    @operation("read")
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
        """Find messages without calling a model, best first; what no longer holds is
        labelled.

        Args:
            query: what to look for, in plain words.
            k: the largest number of hits.
            by: `message`, or `session` to rank sessions, each represented by its best
                message.
            explain: fill the hits' `signals`; the next three follow them and say why
                (`missed`).
            ranking: instead of `Settings.ranking.method`, for this call.
            where: only what passes this filter, such as `{"project": "atlas"}`; see
                docs/scopes.md.

        Raises:
            InvalidInputError: an empty query, `k` below 1, an unknown `by` or an
                unusable filter.
        """
        return fast_recall.search_conversation(
            self._services, self._view(where), query, k, by, explain, ranking
        )

    asearch_conversation = twin(search_conversation)

    @operation("write")
    def add_records(self, records: Any) -> "RecordsReport":
        """Store records made elsewhere, without a model.

        Args:
            records: `Record`s, or dicts with `text` and `source_message_ids` (stored
                messages), and optionally any other field of `Record`; and `changes`, as
                `export_records` gives.

        Returns:
            What happened to each. Where a current record says the same, the sources
            support that one.

        Raises:
            InvalidInputError: no list of records, or nothing is stored of this user.
            StorageError: the ledger cannot be written; nothing was acknowledged.
        """
        return add_records.add_records(self._services, self.id, records, "import")

    aadd_records = twin(add_records)

    @operation("read")
    def search_records(
        self,
        query: str,
        k: int = 5,
        *,
        as_of: object = None,
        explain: bool = False,
        where: Where | None = None,
    ) -> list[RecordHit]:
        """Find records without calling a model, best first; what no longer holds is
        labelled.

        Args:
            query: what to look for, in plain words.
            k: the largest number of hits; a record counts as one with what it
                superseded.
            as_of: what held at this time, instead of what holds now.
            explain: put each signal's value into the hits' `signals`.
            where: a filter that all messages must pass which carry a record; see
                docs/scopes.md.

        Raises:
            InvalidInputError: an empty query, `k` below 1, no time, or an unusable
                filter.
        """
        return fast_recall.search_records(
            self._services, self._view(where), query, k, as_of, explain
        )

    asearch_records = twin(search_records)

    @operation("read")
    def get_records(
        self, ids: str | Sequence[str], *, where: Where | None = None
    ) -> list[Record]:
        """The records with these ids, whatever their status; unknown ids are left out.

        With `where`, records that do not pass the filter are left out too.
        """
        named = message_ids(ids)
        return self._read_along(
            where, lambda c: inspection_queries.get_records(c, named)
        )

    aget_records = twin(get_records)

    @operation("read")
    def get_conversation(
        self, ids: str | Sequence[str], *, where: Where | None = None
    ) -> "list[Message]":
        """The messages with these ids, in the order asked; unknown ids are left out.

        With `where`, messages that do not pass the filter are left out too.
        """
        named = message_ids(ids)
        return self._read_along(
            where, lambda c: inspection_queries.get_conversation(c, named)
        )

    aget_conversation = twin(get_conversation)

    @operation("read")
    def sessions(
        self, *, where: Where | None = None
    ) -> list[message_queries.SessionSummary]:
        """All sessions at a glance, in the order they began; of messages that pass
        `where` only.
        """
        return self._read_within(where, message_queries.session_summaries)

    asessions = twin(sessions)

    @operation("read")
    def export(self, *, where: Where | None = None) -> list[dict[str, Any]]:
        """Every message as a JSON-shaped dict that `add` and `langmem-graph import`
        take back.

        With `where`, those that pass the filter.
        """
        return self._read_within(where, inspection_queries.export_messages)

    aexport = twin(export)

    @operation("read")
    def export_records(
        self, *, as_of: object = None, history: bool = False, where: Where | None = None
    ) -> list[dict[str, Any]]:
        """Every record that holds now, as a dict that `add_records` takes back; oldest
        first.

        Args:
            as_of: what held at this time instead, as it was then.
            history: also what holds no longer, with its `labels`, and what messages did
                to each record (`changes`).
            where: a filter that all messages must pass which carry a record.
        """
        then = to_utc(as_of) if as_of is not None else None
        rows = partial(inspection_queries.export_records, as_of=then, history=history)
        return self._read_within(where, rows)

    aexport_records = twin(export_records)

    def as_retriever(
        self, *, k: int = 5, by: SearchBy = "message", where: Where | None = None
    ) -> "MemoryRetriever":
        """This memory as a LangChain retriever, sync and async; options as for
        searching.

        A `where` that is given to `invoke` narrows this one.

        Raises:
            InvalidInputError: `k` below 1, an unknown `by` or an unusable filter.
        """
        from langmem_graph.retriever import MemoryRetriever

        check_k(k)
        check_choice("by", by, get_args(SearchBy))
        parsed(where)  # raises for an unusable one
        return MemoryRetriever(user=self, k=k, by=by, where=where)

    @operation("write")
    def erase(self) -> EraseReport:
        """Delete everything of this user: the ledger, its log, the vectors, the folder.

        What the user wrote in shared rooms stays; the report names these.
        """
        return deletion.erase(self._services, self.id)

    aerase = twin(erase)

    @operation("read")
    def doctor(self, *, sample: int = 200) -> Health:
        """Compare the ledger with the index, looking up `sample` vectors in Chroma (0:
        all).
        """
        return upkeep.examine(self._services, self.id, sample)

    adoctor = twin(doctor)

    @operation("write")
    def rebuild(self, *, reembed: bool = False) -> Health:
        """Rebuild the index from the ledger's vectors; `reembed` also embeds every text
        anew.
        """
        return upkeep.rebuild(self._services, self.id, reembed)

    arebuild = twin(rebuild)
