"""Changes of records as extraction makes them, without a model."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from langmem_graph.ids_and_times import to_utc
from langmem_graph.memory import Memory
from langmem_graph.schemas import NO_LONGER
from langmem_graph.storage import record_effects, record_queries, record_writes
from langmem_graph.storage.add_records import draft
from langmem_graph.storage.effects import ADOPT, CONFIRM, SKIP
from langmem_graph.storage.record_writes import Change, Words, naive
from tests.conftest import said

MODEL = "model"
OPS = {"confirms": CONFIRM, "adopts": ADOPT, "skips_once": SKIP}


class Talk:
    """A user whose messages make and change records; each message says its own id."""

    def __init__(self, memory: Memory, user_id: str = "u") -> None:
        self.memory = memory
        self.user: Any = memory.user(user_id)

    def say(self, message: str, at: str = "2025-01-01", **fields: Any) -> None:
        words = fields.pop("text", f"the words of {message}")
        self.user.add(said(words, id=message, at=at, **fields), session_id="s")

    def record(self, record_id: str, *messages: str, **fields: Any) -> None:
        row = {"text": f"The record {record_id}.", "record_id": record_id}
        report = self.user.add_records(
            {**row, "source_message_ids": list(messages), **fields}
        )
        assert report.stored == [record_id], report

    def replace(
        self, old: str, new: str, message: str, relation: Any = "replaces"
    ) -> None:
        """What extraction does most often: a new record and what it replaces, in one change."""
        row = {
            "text": f"The record {new}.",
            "record_id": new,
            "source_message_ids": [message],
        }
        with self._writing() as room, room.database.write_transaction() as connection:
            found = record_queries.message_numbers(connection, [message])
            made = draft(row, found, 1_000, MODEL)
            change = Change.new(MODEL, f"because of {found[message][2]}")
            n = record_writes.insert_record(connection, made, change)
            older = record_queries.numbers_of(connection, [old])[old]
            said_in, at, text = found[message]
            words = Words(relation, said_in, text)
            then = record_queries.aware(at)
            self._carry_out(connection, older, n, words, then, {}, change)

    def change(
        self,
        record: str,
        relation: Any,
        message: str,
        *,
        by: str | None = None,
        since: str | None = None,
        values: dict[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """What a message does to a record, in one change with its history entry and its words."""
        with self._writing() as room, room.database.write_transaction() as connection:
            ids = record_queries.numbers_of(connection, [record, *([by] if by else [])])
            said_in = [message, fields.get("agreed", message)]
            found = record_queries.message_numbers(connection, said_in)
            number, at, text = found[message]
            then = to_utc(since) if since else None
            words = Words(relation, number, text, since=naive(then))
            if "agreed" in fields:
                agreed = found[fields["agreed"]]
                words = replace(words, agreed_message=agreed[0], agreed_quote=agreed[2])
            newer = ids[by] if by else None
            change = Change.new(MODEL, f"because of {text}")
            at = then or record_queries.aware(at)
            self._carry_out(
                connection, ids[record], newer, words, at, values or {}, change
            )

    def _writing(self) -> Any:
        return self.memory._services.room(self.user.id)

    def _carry_out(
        self,
        connection: Connection,
        n: int,
        by: int | None,
        words: Words,
        at: datetime,
        values: dict[str, Any],
        change: Change,
    ) -> None:
        if words.relation == "corrects":
            facts = record_queries.facts_of(connection, [n])[n]
            at = record_queries.aware(facts.valid_from)
        if words.relation in NO_LONGER:
            if by is not None:
                record_effects.supersede(connection, n, by, at, change, words)
            else:
                record_effects.end_record(connection, n, at, change, words)
        elif words.relation == "details" and by is not None:
            record_effects.refine(connection, n, by, change, words)
        else:
            op = OPS.get(words.relation, words.relation)
            record_effects.change_record(connection, n, op, change, values, words)
        if words.relation in ("confirms", "adopts"):
            record_writes.add_sources(connection, n, [words.message], supporting=True)

    def status(self, record: str) -> str:
        return str(self.user.get_records(record)[0].status)

    def holding(self) -> list[str]:
        """The records that hold now, which the search must find alike."""
        exported = [row["record_id"] for row in self.user.export_records()]
        hits = self.user.search_records("record", k=50)
        found = {hit.record_id for hit in hits if not hit.labels}
        assert found == set(exported)
        return exported

    def held(self, at: str) -> list[str]:
        """The records that held at a time."""
        return [row["record_id"] for row in self.user.export_records(as_of=at)]
