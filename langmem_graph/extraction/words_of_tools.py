"""Whether words of the user's bear out what a model wrote by a tool, as far as code can
know.

The model may be obeying a text that a tool gave it. So the quote must stand in a
message of the user's own in the same conversation, after which no tool or import has
said anything.
"""

from collections.abc import Mapping
from datetime import datetime

from langmem_graph.extraction.batch_view import shown_day
from langmem_graph.extraction.verify_values import unknown_numbers
from langmem_graph.metadata import Value
from langmem_graph.schemas import Message
from langmem_graph.storage import message_queries
from langmem_graph.storage.reading import Reading
from langmem_graph.values.matching import holds, is_telling

DEPTH = 20  # messages of the session in which the quote is looked for; own figure


def bearing_out(
    connection: Reading,
    text: str,
    quote: str,
    session_id: str,
    *,
    about: Mapping[str, Value],
    instead: str = "",
    since: datetime | None = None,
) -> str | None:
    """The id of the user's message that holds the quote and may carry the sentence
    `text`.

    It has the metadata `about`, was said no earlier than `since`, and it, the day on
    which it was said or the corrected sentence (`instead`) has each number of the text.
    """
    for message in reversed(
        message_queries.latest_messages(connection, DEPTH, session_id)
    ):
        if message.origin in ("tool", "import") and message.role != "system":
            return None
        if _is_the_users(message, quote) and (since is None or message.at >= since):
            known = [message.text, instead, shown_day(message, None)]
            fits = about.items() <= message.metadata.items()
            return message.id if fits and not unknown_numbers(text, known) else None
    return None


def _is_the_users(message: Message, quote: str) -> bool:
    is_own = message.role == "user" and message.origin == "user"
    return is_own and holds(message.text, quote) and is_telling(message.text, quote)
