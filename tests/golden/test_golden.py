"""Every recorded conversation goes as it went when it was recorded.

After a change of behaviour that is meant: `python -m tests.golden.record`, and read the diff.
"""

import json
from pathlib import Path

import pytest

from tests.golden.conversations import conversations
from tests.golden.record import (
    FILES,
    SCHEMAS,
    SYSTEM_PROMPTS,
    as_text,
    file_of,
    run,
    texts_of,
)


@pytest.mark.parametrize("name", conversations)
def test_goes_as_recorded(name: str, tmp_path: Path) -> None:
    talk = run(name, tmp_path)
    expected = file_of(name).read_text(encoding="utf-8")
    assert as_text(talk.golden()).splitlines() == expected.splitlines()
    for file, own in zip((SYSTEM_PROMPTS, SCHEMAS), texts_of(talk), strict=True):
        recorded = json.loads(file.read_text(encoding="utf-8"))
        assert {label: recorded.get(label) for label in own} == own


def test_no_file_is_left_over() -> None:
    written = {file.stem for file in FILES.glob("*.json")}
    assert written == {*conversations, SYSTEM_PROMPTS.stem, SCHEMAS.stem}
