"""append: messages reach the ledger before anything else happens to them (rule 1)."""

from time import perf_counter

from langmem_graph.errors import ReadOnlyError
from langmem_graph.intake import read_messages, session_key
from langmem_graph.models import AddReport, RejectedMessage
from langmem_graph.services import Services
from langmem_graph.store import appending, lookups, outbox, reading
from langmem_graph.store.appending import Appended
from langmem_graph.store.ledger import EMBED, MESSAGES
from langmem_graph.store.room import Room
from langmem_graph.write import resent


def append(
    services: Services,
    user_id: str,
    messages: object,
    *,
    session_id: object,
    at: object,
    whole_conversation: bool,
    read: bool = True,
) -> AddReport:
    """Store messages, acknowledge them, then embed and index what is due.

    With `read=False` no model will read them: their record is made already.
    """
    start = perf_counter()
    if services.read_only:
        raise ReadOnlyError("add needs a memory opened for writing, not read_only=True.")
    session = session_key(session_id)
    new, rejected = read_messages(
        messages, session_id=session, at=at, max_chars=services.settings.max_message_chars
    )
    with services.room(user_id) as room:
        room.check_embedder(services.embedder.name)
        with room.database.writing() as connection:
            known = resent.known_again(connection, new) if whole_conversation else []
            done = appending.append(connection, new[len(known) :])
            if not read:
                reading.mark_read(connection, list(done.rows))
            done.already_known[:0] = [message.id for message in known]
        own = range(min(done.rows), max(done.rows) + 1) if done.rows else range(0)
        drained = outbox.drain(
            room,
            services.embedder,
            services.settings,
            MESSAGES,
            own,
            at_least=services.settings.index_batch,
        )
        pending = _not_yet_embedded(room, done)
    return _report(done, rejected, pending, drained.warnings, start)


def _not_yet_embedded(room: Room, done: Appended) -> list[str]:
    if not done.rows:
        return []
    with room.database.reading() as connection:
        waiting = lookups.waiting_items(connection, EMBED, min(done.rows), max(done.rows))
    return [message_id for n, message_id in done.rows.items() if n in waiting]


def _report(
    done: Appended,
    rejected: list[RejectedMessage],
    pending: list[str],
    warnings: list[str],
    start: float,
) -> AddReport:
    return AddReport(
        stored=done.stored,
        already_known=done.already_known,
        renamed=done.renamed,
        rejected=rejected,
        not_yet_embedded=pending,
        warnings=warnings,
        milliseconds=(perf_counter() - start) * 1_000,
    )
