"""What the README shows is what happens."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.chat_server import chat_server
from tests.support.marks import needs_model

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, re.DOTALL)


def ran(block: str, where: Path, **environment: str) -> str:
    """What a block prints, saved as a file and run as it stands."""
    (where / "first.py").write_text(block, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "first.py"],
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout


@needs_model
@pytest.mark.enable_socket
def test_the_blocks_run_as_they_stand(tmp_path: Path) -> None:
    """They print what is shown; the last one asks a model, here one on this machine."""
    *printing, (last, _) = BLOCKS
    assert len(printing) == 2
    undated = re.compile(r"\d{4}-\d\d-\d\d")
    for block, shown in printing:
        assert undated.sub("", ran(block, tmp_path)) == undated.sub("", shown)
    requests: list[Any] = []
    with chat_server(requests) as url:
        ran(last, tmp_path, OPENAI_API_KEY="none", OPENAI_BASE_URL=url)
    assert "I always take an aisle seat." in str(requests[0])


def test_the_readme_is_short_and_its_links_and_picture_exist() -> None:
    assert len(README.splitlines()) <= 180
    targets = re.findall(r"\]\(([^)#]+)", README)
    assert "docs/images/inspector-layers.png" in targets
    assert [target for target in targets if not (REPOSITORY / target).exists()] == []


def test_the_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"`make (\w+)`", README))
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)
