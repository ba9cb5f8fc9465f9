"""The library itself: its look-up, its parts alone, and its reasoning with a model."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain_core.embeddings import Embeddings
from sqlalchemy import Connection

from benchmarks.data.items import Question, Session, ToolGoal
from benchmarks.models import Spent
from benchmarks.readers import (
    Context,
    ContextReader,
    NavigateReader,
    Passage,
    Reply,
    quoted,
    whole_sessions,
)
from benchmarks.systems.baselines import said_passage
from langmem_graph.memory import Memory
from langmem_graph.results import GroundedCall, Recall, SearchBy
from langmem_graph.schemas import MessageHit, Origin
from langmem_graph.settings import RankingMethod, Settings
from langmem_graph.view import own_view


class SharedMemory:
    """One memory in a folder, which several systems read; each session goes in once.

    Args:
        folder: where it lies; what is there already is continued.
        embeddings: as `Memory` takes it.
        with_records: also load the data set's own records, which cite the messages.
        model: reads every session when it is added, and reasons.
        reads: False where the model only reasons.
        settings: what differs from the default while it is written.
        database: a PostgreSQL URL; the memory lies there, and its user is named by the
            folder.
    """

    def __init__(
        self,
        folder: Path,
        embeddings: Embeddings | str | None,
        *,
        with_records: bool = False,
        model: Any = None,
        reads: bool = True,
        settings: Mapping[str, Any] | None = None,
        database: str | None = None,
    ) -> None:
        self._reads = reads and model is not None
        self.folder, self.embeddings, self.model = folder, embeddings, model
        self._with_records = with_records
        written = Settings.model_validate(settings or {})
        self.place = database or folder
        self._memory = Memory(
            self.place, embeddings=embeddings, model=model, settings=written
        )
        self.user = self._memory.user(str(folder) if database else "bench")
        if database and not folder.exists():  # of a run that was forgotten
            self.user.erase()
            folder.mkdir(parents=True)
        self._added: dict[int, Spent] = {}
        self.undated: set[str] = set()
        """Ids of messages without a date; memory dates them to when they were
        stored.
        """
        self.said: list[Passage] = []
        self._closed = False

    def add(self, session: Session) -> Spent:
        """Store a session unless it is there."""
        own = id(session)  # two sessions may have one name
        if own not in self._added:
            self._added[own] = self._add(session)
        return self._added[own]

    def _add(self, session: Session) -> Spent:
        self.undated |= {
            str(one["id"]) for one in session.messages if not one.get("at")
        }
        start, spent = perf_counter(), Spent()
        spoken = [one for one in session.messages if str(one["content"]).strip()]
        self.said += [said_passage(one, session.session_id) for one in spoken]
        refused = self.user.add(spoken, session_id=session.session_id).rejected
        problems = [one.reason for one in refused]
        if self._with_records and session.records:
            problems += [
                one.reason for one in self.user.add_records(session.records).rejected
            ]
        if self._reads:
            read = self.user.flush()
            spent = Spent(0.0, read.llm_calls, read.input_tokens, read.output_tokens)
            problems += unusable(read.problems, read.repairs)
        spent.seconds, spent.problems = perf_counter() - start, problems
        return spent

    def read(self, query: Callable[[Connection], float]) -> float:
        """A figure from the ledger; 0 where nothing is stored."""
        return self._memory._services.read(own_view(self.user.id), query, 0.0)

    @property
    def holds_something(self) -> bool:
        """Whether there is anything to open beside it."""
        return bool(self._added)

    def size(self) -> int:
        """Bytes of all its files."""
        return sum(
            file.stat().st_size for file in self.folder.rglob("*") if file.is_file()
        )

    def close(self) -> None:
        """Close the memory; its folder stays."""
        if not self._closed:
            self._closed = True
            self._memory.close()


class Ours:
    """The library with one of its rankings. Answers from `recall`, without a model for
    memory.
    """

    def __init__(
        self, name: str, shared: SharedMemory, ranking: RankingMethod = "hybrid"
    ) -> None:
        self.name = name
        self.shared = shared
        self._ranking = ranking

    def add(self, session: Session) -> Spent:
        """Store a session."""
        return self.shared.add(session)

    def search(self, query: str, k: int, by: SearchBy) -> list[Passage]:
        """What `search_conversation` finds."""
        hits = self.shared.user.search_conversation(query, k, by, ranking=self._ranking)
        return [passage_of(hit, by, self.shared.undated) for hit in hits]

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """From the hits."""
        if isinstance(reader, NavigateReader) and question.goal is None:
            return reader.navigate(self.shared.user, question)
        found = self.search(question.text, k, reader.by)
        if reader.by == "session":
            found = whole_sessions(found, self.shared.said)
        return reader.read_passages(question, found)

    def size(self) -> int:
        """Bytes of the memory."""
        return self.shared.size()

    def close(self) -> None:
        """Close the memory."""
        self.shared.close()


class Reasoning(Ours):
    """The library with a model that reads and reasons, under settings of its own.

    Args:
        name: as tables show it.
        shared: a memory with a model.
        settings: what differs from the default, such as
            `{"reasoning": {"use_goals": False}}`. The memory is read beside
            its writer, so that one reading serves all settings, and in the same way
            with each.
    """

    def __init__(
        self, name: str, shared: SharedMemory, settings: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(name, shared)
        self._settings = Settings.model_validate(settings or {})
        self._reading: Memory | None = None

    @property
    def _user(self) -> Any:
        if not self.shared.holds_something:
            return self.shared.user
        if self._reading is None:  # opened after the writer, which makes the folder
            self._reading = Memory(
                self.shared.place,
                embeddings=self.shared.embeddings,
                model=self.shared.model,
                settings=self._settings,
                read_only=True,
            )
        return self._reading.user(self.shared.user.id)

    def answer(self, question: Question, k: int, reader: ContextReader) -> Reply:
        """SearchBy navigating, by grounding a call, or from what reasoning recalled."""
        if question.goal is not None:
            return self._call(question, reader)
        if isinstance(reader, NavigateReader):
            return reader.navigate(self._user, question)
        start = perf_counter()
        found = self._user.recall(
            question.text, k=k, mode="reason", at=question.at, max_tokens=reader.tokens
        )
        failed = unusable(found.report.problems, found.report.repairs)
        recalled = Spent(perf_counter() - start, *_cost(found), failed)
        reply = reader.read(question, context_of(found))
        reply.spent = reply.spent.plus(recalled)
        reply.problems += found.report.problems
        return reply

    def _call(self, question: Question, reader: ContextReader) -> Reply:
        """`user.ground` fills the call; what it leaves out as missing stays out.

        Of several tools the model picks one first, with what a plain look-up finds in
        view.
        """
        goal, picking = question.goal, Spent()
        if question.offered:
            found = self.search(question.text, 20, "message")
            picked = reader.pick(question, quoted(found, reader.tokens))
            goal, picking = picked.content, picked.spent
            if goal is None:
                return Reply(failed=True, spent=picking, problems=picked.problems)
        assert goal is not None
        reply = self._ground(question, goal)
        reply.spent = reply.spent.plus(picking)
        return reply

    def _ground(self, question: Question, goal: ToolGoal) -> Reply:
        start = perf_counter()
        tool = goal.as_function()
        # gold rests on all
        trust: tuple[Origin, ...] = ("user", "assistant", "tool", "import")
        done: GroundedCall = self._user.ground(
            tool, question.text, at=question.at, trust=trust
        )
        spent = Spent(
            perf_counter() - start,
            done.llm_calls,
            done.input_tokens,
            done.output_tokens,
        )
        filling = [one for one in done.warnings if one.startswith("ToolFill: ")]
        if len(filling) > 1:  # asked twice, and neither answer could be used
            return Reply(failed=True, spent=spent, problems=filling)
        grounding = done.grounding.values()
        return Reply(
            tool=done.name,
            arguments=done.arguments,
            shown=[question.text, *(one.text for one in grounding if one.text)],
            shown_ids=[id_ for one in grounding for id_ in one.message_ids],
            spent=spent,
            problems=done.warnings,
        )

    def close(self) -> None:
        """Close both."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None
        super().close()


def passage_of(hit: MessageHit, by: SearchBy, undated: Collection[str] = ()) -> Passage:
    """A hit as others' passages are."""
    at = "" if hit.message_id in undated else hit.at.isoformat()
    own = hit.session_id if by == "session" else hit.message_id
    said = f"{hit.name or hit.role}: {hit.text}"
    return Passage(own, said, at, hit.session_id)


def context_of(found: Recall) -> Context:
    """What a recall would show a model."""
    ids = [hit.message_id for hit in found.evidence]
    texts = [fact.text for fact in found.facts] or [hit.text for hit in found.evidence]
    return Context(found.context, ids, texts, calls=found.report.llm_calls)


def unusable(problems: list[str], repairs: int) -> list[str]:
    """The problems, where more came up than a second asking has put right."""
    return problems if len(problems) > repairs else []


def _cost(found: Recall) -> tuple[int, int, int]:
    report = found.report
    return report.llm_calls, report.input_tokens, report.output_tokens
