"""Trajectories, as JSON lines: written for training and inspection, and read back."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from langmem_graph.errors import InvalidInputError, explain
from langmem_graph.navigation.navigation_items import (
    Finish,
    Navigation,
    NavigationModel,
    QuestionItem,
    ToolUse,
)
from langmem_graph.navigation.reading_tools import navigation_tools
from langmem_graph.navigation.reward import Rubric, Score


class TrajectoryMetadata(NavigationModel):
    """Metadata of a trajectory."""

    item: QuestionItem | None = None
    user_id: str
    question: str
    answer: str
    finish: Finish
    turns: int
    tool_calls: list[ToolUse]
    input_tokens: int
    output_tokens: int
    score: Score | None = None
    problems: list[str] = Field(default_factory=list)


class Trajectory(NavigationModel):
    """One line: a conversation in OpenAI's format with its tools, its reward, and metadata."""

    version: Literal[1] = 1
    messages: list[dict[str, Any]] = Field(min_length=2)
    tools: list[dict[str, Any]]
    reward: float | None = None
    metadata: TrajectoryMetadata


def trajectory(
    navigation: Navigation, item: QuestionItem | None = None, rubric: Rubric | None = None
) -> Trajectory:
    """A navigation as a trajectory; it has a reward where its question item is given."""
    score = (rubric or Rubric()).score(item, navigation) if item else None
    shared = TrajectoryMetadata.model_fields.keys() & Navigation.model_fields.keys()
    fields = {name: getattr(navigation, name) for name in shared}
    return Trajectory(
        messages=navigation.messages,
        tools=navigation_tools(),
        reward=score.reward if score else None,
        metadata=TrajectoryMetadata(item=item, score=score, **fields),
    )


def write_trajectories(path: str | Path, trajectories: Iterable[Trajectory]) -> int:
    """Write one trajectory per line, replacing the file; returns their number.

    The file is replaced when all are written, so they may be read from the same file. They contain
    users' messages and need the same protection as the memory.
    """
    target, count = Path(path), 0
    new = target.with_name(f"{target.name}.new")
    try:
        with new.open("w", encoding="utf-8", newline="\n") as file:
            for count, line in enumerate(trajectories, 1):  # noqa: B007
                file.write(line.model_dump_json() + "\n")
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return count


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """Read the trajectories of a file, one by one.

    Raises:
        InvalidInputError: a line is no trajectory; the error names it.
    """
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield Trajectory.model_validate_json(line)
            except ValidationError as error:
                why = explain(error)
                raise InvalidInputError(f"{path}, line {number}: {why}.") from error
