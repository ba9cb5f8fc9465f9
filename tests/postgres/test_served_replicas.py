"""Two `langgraph dev` servers on one database: what one was told, the other recalls."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.test_langgraph_server import as_user, run, served

pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180), pytest.mark.long]


def test_what_one_server_was_told_the_other_recalls(
    database: str, tmp_path: Path
) -> None:
    homes = [tmp_path / name for name in ("one", "two")]
    for home in homes:
        home.mkdir()
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(
                served(home, LANGMEM_GRAPH_DIR="", POSTGRES_URI=database)
            )
            for home in homes
        )
        for told, asked, seat in ((one, two, "aisle"), (two, one, "window")):
            run(told, "chatbot", f"I always take a {seat} seat.", **as_user("ana"))
            end = run(asked, "chatbot", "Which seat do I take?", **as_user("ana"))
            assert f"I always take a {seat} seat." in end["messages"][-1]["content"]
            other = run(asked, "chatbot", "Which seat do I take?", **as_user("bob"))
            assert seat not in other["messages"][-1]["content"]
    assert not (homes[0] / "memory").exists()
