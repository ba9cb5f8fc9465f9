"""Answers as JSON, for scripts."""

from typing import Any

import typer
from pydantic import BaseModel

from langmem_graph.recall.quotes import plain_json


def print_json(value: object) -> None:
    """Print a model, or a list of models, or what is JSON already."""
    typer.echo(
        plain_json([plain(item) for item in value] if isinstance(value, list) else plain(value))
    )


def plain(value: Any) -> Any:
    """A model as JSON."""
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value
