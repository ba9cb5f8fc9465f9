"""What a model writes by a tool changes nothing that the user said, on PostgreSQL either."""

from langmem_graph.memory import Memory
from tests.support.tool_words import check_that_hostile_mail_changes_nothing


def test_hostile_mail_changes_nothing_of_the_users(database: str) -> None:
    with Memory(database, embeddings="hash") as memory:
        check_that_hostile_mail_changes_nothing(memory)
