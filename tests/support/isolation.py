"""What is asked for one user on every surface."""

from typing import Any

from pydantic import BaseModel


class Send(BaseModel):
    """Send the secret."""

    note: str


def config_of(user: str) -> Any:
    return {"configurable": {"user_id": user, "thread_id": "t1"}}


ASKED = {"messages": [("user", "What is my secret?")]}
