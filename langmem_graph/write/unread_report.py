"""What flush says where there is no model to read with."""

from langmem_graph.models import FlushReport
from langmem_graph.services import Services
from langmem_graph.store import reading


def unread_report(services: Services, user_id: str) -> FlushReport:
    """How many messages wait for a model."""
    if not services.has(user_id):
        return FlushReport(status="no_model")
    with services.room(user_id) as room, room.database.reading() as connection:
        return FlushReport(status="no_model", pending=reading.count_unread(connection))
