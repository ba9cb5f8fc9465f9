"""`benchmarks.pages`: every view of the inspector is opened in a browser and timed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import pages
from tests.support.loopback import loopback_alone

if not pages.CHROMIUM.exists():
    pytest.skip("needs Debian's chromium at /usr/bin/chromium", allow_module_level=True)
pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.long, pytest.mark.enable_socket]


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_alone():
        yield


def test_every_view_is_painted_alone_and_beside_a_process_that_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "memory"
    words = ["--messages", "200", "--times", "1", "--memory", str(place)]
    assert pages.main([*words, "--output", str(tmp_path)]) == 0
    rows = re.findall(
        r"^\| ([a-z ]+) ((?:\| [\d,]+ ){6})\|$", capsys.readouterr().out, re.M
    )
    assert [name for name, _ in rows] == list(pages._views(place))
    for name, cells in rows:
        assert all(
            int(cell.replace(",", "")) > 0 for cell in re.findall(r"[\d,]+", cells)
        ), name
