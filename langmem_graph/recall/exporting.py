"""Messages and records as rows that can be imported again."""

from typing import Any

from langmem_graph.models import Message, Record


def message_row(message: Message) -> dict[str, Any]:
    """As `add` and `langmem-graph import` take it."""
    fields = message.model_dump(mode="json", exclude_defaults=True)
    return {"id": fields.pop("id"), "content": fields.pop("text"), **fields}


def record_row(record: Record) -> dict[str, Any]:
    """As `add_records` takes it."""
    derived = {"superseded_by", "created_at", "updated_at"}
    fields = record.model_dump(mode="json", exclude=derived, exclude_defaults=True)
    return {"text": fields.pop("text"), "source_message_ids": fields.pop("message_ids"), **fields}
