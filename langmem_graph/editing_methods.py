"""The methods of `UserMemory` with which people see why memory says something, and
change it.
"""

from collections.abc import Mapping
from typing import Any, get_args

from langmem_graph.errors import InvalidInputError, quoted
from langmem_graph.filters import Where
from langmem_graph.ids_and_times import item_key, session_key, to_utc
from langmem_graph.metadata import Value
from langmem_graph.operation import operation, twin
from langmem_graph.reports import (
    ExpiryReport,
    ForgetReport,
    HistoryEntry,
    ModelCall,
    Usage,
)
from langmem_graph.retrieval.search_common import check_choice
from langmem_graph.schemas import Kind, Record, RecordChange
from langmem_graph.settings import KeepDays
from langmem_graph.storage import (
    call_log,
    expiry,
    forgetting,
    inspection_queries,
    records_by_hand,
    undo_changes,
)
from langmem_graph.storage.records_by_hand import Writer, WrittenBy
from langmem_graph.user_methods import UserMethods


class EditingMethods(UserMethods):
    """Base of `UserMemory`: remember, correct, undo, forget, expire, and what changed
    what.
    """

    @operation("write")
    def remember(
        self,
        text: str,
        kind: Kind = "fact",
        *,
        metadata: Mapping[str, Value] | None = None,
        origin: WrittenBy = "user",
        quote: str = "",
        session_id: str | int | None = None,
    ) -> Record:
        """Store a sentence by hand: as a message of its own and as a record that cites
        it.

        Args:
            text: the sentence.
            kind: `fact`, `event`, `preference` or `instruction`. With another than
                `fact` a sentence takes the place of the same one of another kind.
            metadata: by which a `where` finds it, as for `add`.
            origin: `assistant` where a model wrote it: a draft, as what the assistant
                said, unless a message of the user's bears it out, which the record
                cites then.
            quote: with `assistant`: words of the user's that ask for it. They bear it
                out where they stand in a message of the user's in this session, with
                every number of the text, and no tool or import has said anything after
                that.
            session_id: the session in which the model writes.

        Raises:
            InvalidInputError: no words, too many (`Settings.storage.max_record_chars`),
                no such kind, unusable metadata, or an instruction that no words of the
                user's bear out.
        """
        writer = self._writer(origin, quote, session_id)
        return records_by_hand.remember(
            self._services, self.id, text, kind, metadata, writer
        )

    aremember = twin(remember)

    @operation("write")
    def correct(
        self,
        record: str,
        text: str,
        *,
        event_time: Mapping[str, Any] | None = None,
        origin: WrittenBy = "user",
        quote: str = "",
        session_id: str | int | None = None,
    ) -> Record:
        """Store what is right instead of a record that is wrong: the wrong one never
        held.

        The sentence becomes a message of its own, and a record of the same kind, facet,
        subject, attribute, project and metadata. The wrong one stays in the history;
        `undo` takes this back.

        Args:
            record: the id of the record that is wrong.
            text: the sentence that is right.
            event_time: when it takes place, as in `Record.event_time`; None keeps the
                time that the wrong record has.
            origin: `assistant` where a model wrote it, with `quote` and `session_id` as
                for `remember`. What no message of the user's bears out since the record
                was said, is kept as a draft beside a record that the user's words
                carry, which goes on holding.

        Returns:
            The record that is right; it `supersedes` the wrong one where that was
            corrected.

        Raises:
            InvalidInputError: no words or too many, no such record, or one that holds
                no longer.
        """
        writer = self._writer(origin, quote, session_id)
        return records_by_hand.correct(
            self._services, self.id, item_key(record), text, event_time, writer
        )

    acorrect = twin(correct)

    def _writer(
        self, origin: WrittenBy, quote: str, session_id: str | int | None
    ) -> Writer:
        """Whose words are written, and how words of the user's that bear them out are
        found.
        """
        check_choice("origin", origin, get_args(WrittenBy))
        if origin == "user" or not quote or session_id is None:
            return Writer(origin, author=self._author)
        # slow to import
        from langmem_graph.extraction.words_of_tools import bearing_out

        def found(
            text: str, about: Mapping[str, Value], instead: str, since: Any
        ) -> str | None:
            told = {"about": about, "instead": instead, "since": since}
            asked = (text, quote, session_key(session_id))
            return self._services.read(
                self._own_view(), lambda c: bearing_out(c, *asked, **told), None
            )

        return Writer(origin, quote, found, self._author)

    @operation("write")
    def forget(
        self,
        *,
        record: str | None = None,
        message: str | None = None,
        session: str | None = None,
    ) -> ForgetReport:
        """Delete a record, a message or a session with everything made of it, on the
        disk too.

        Records that a forgotten message carries are deleted; their other messages
        become pending again. A record that it only supports stays. What the message, or
        a forgotten record, had done to other records is taken back: what a forgotten
        record had superseded holds again.

        Raises:
            InvalidInputError: not exactly one thing is named.
        """
        named = {"record": record, "message": message, "session": session}
        return forgetting.forget(self._services, self.id, **named)

    aforget = twin(forget)

    @operation("write")
    def hide(self, record: str) -> Record:
        """Take a record out of all that is shown: recall, searches, contexts, profile
        and topics.

        It is kept with its history, as status `hidden`; `unhide` or `undo` shows it
        again. Topic tracks and the profile are written anew without it. Its messages
        stay what they are, and are found: `forget` takes words out.

        Returns:
            The record as it is now; unchanged where it was hidden already.

        Raises:
            InvalidInputError: no such record, or one that was taken back.
        """
        return records_by_hand.hide(self._services, self.id, item_key(record))

    ahide = twin(hide)

    @operation("write")
    def unhide(self, record: str) -> Record:
        """Show a hidden record again.

        Returns:
            The record as it is now: as it was before, or ended by what was said
                meanwhile.

        Raises:
            InvalidInputError: no such record, or one that was taken back.
        """
        return records_by_hand.unhide(self._services, self.id, item_key(record))

    aunhide = twin(unhide)

    @operation("read")
    def history(
        self, record_id: str, *, where: Where | None = None
    ) -> list[HistoryEntry]:
        """Every change of a record and of those it replaced or was replaced by, oldest
        first.

        With `where`, those of records that pass the filter, without words that do not.
        """
        key = item_key(record_id)
        return self._read_within(where, lambda c: inspection_queries.history(c, key))

    ahistory = twin(history)

    @operation("read")
    def changes(
        self, record_id: str, *, where: Where | None = None
    ) -> list[RecordChange]:
        """What messages did to a record, each with the words that did so, oldest first.

        Without what was undone or forgotten; empty for an unknown record. With `where`,
        without words and ids that do not pass the filter.
        """
        key = item_key(record_id)
        return self._read_within(where, lambda c: inspection_queries.changes(c, key))

    achanges = twin(changes)

    @operation("write")
    def undo(
        self, record: str | None = None, *, message: str | None = None
    ) -> list[Record]:
        """Take back the latest change of a record, or all that one message caused.

        Args:
            record: a record's id; its latest change is taken back in all records that
                it touched.
            message: a message's id; records made from it alone are discarded, what it
                did to other records is taken back, and it supports no record any more.
                It stays itself.

        Returns:
            Those records as they are now; empty when there is nothing to take back.

        Raises:
            InvalidInputError: not exactly one is named, it does not exist, or later
                changes rest on it and must be undone first.
        """
        return undo_changes.undo(
            self._services, self.id, record=record, message=message
        )

    aundo = twin(undo)

    @operation("read")
    def calls(self, since: object = None, *, limit: int = 100) -> list[ModelCall]:
        """The latest model calls of extraction, the newest first: cost, and what was
        refused.

        Args:
            since: only calls since this time.
            limit: the largest number of calls; 10,000 of a user are kept.

        Raises:
            InvalidInputError: no time, or a limit below 1.
        """
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidInputError(
                f"limit must be a whole number above 0, not {quoted(limit)}."
            )
        most = min(limit, call_log.MAX_CALLS)  # a database knows no greater number
        return self._read(
            call_log.read_calls, None if since is None else to_utc(since), most
        )

    acalls = twin(calls)

    @operation("read")
    def usage(self, since: object = None) -> Usage:
        """What this user's model calls cost, by day (UTC) and purpose.

        Args:
            since: only calls since this time; default all that the log of calls keeps.

        Raises:
            InvalidInputError: no time.
        """
        start = None if since is None else to_utc(since)
        return self._services.read(
            self._own_view(), lambda c: call_log.usage(c, start), Usage()
        )

    ausage = twin(usage)

    @operation("write")
    def keep_days(
        self, *, messages: int | None = None, records: int | None = None
    ) -> None:
        """Set how long this user's messages and records are kept; stored, for all
        processes.

        Args:
            messages: days after which a message expires, from when it was said.
            records: days after which a record expires, from when a message last said
                it. A record goes with the last message that says it in any case.

        None means what `Memory.keep_days` says, or for ever.

        Raises:
            InvalidInputError: no whole number above 0, or records for longer than
                messages.
        """
        expiry.set_keep_days(
            self._services, self.id, KeepDays(messages=messages, records=records)
        )

    akeep_days = twin(keep_days)

    @operation("write")
    def expire(self) -> ExpiryReport:
        """Delete what is older than it is to be kept, with everything that quotes it.

        What an expired message did to other records stays done: what it ended does not
        hold again. A record that a younger message carries or confirms stays, with that
        message.
        """
        return expiry.expire(self._services, self.id)

    aexpire = twin(expire)
