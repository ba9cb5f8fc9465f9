"""The site is built without the network, shows every public method, and asks no other host."""

import contextlib
import functools
import re
import threading
import warnings
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from langmem_graph import Memory, UserMemory
from tests.support.loopback import loopback_alone

REPOSITORY = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
pytestmark = pytest.mark.stress


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is an error. Sockets are closed in tests."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    target = tmp_path_factory.mktemp("site")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mkdocs' own
        file = str(REPOSITORY / "mkdocs.yml")
        build(load_config(file, site_dir=str(target), strict=True))
    return target


def test_the_site_shows_every_method_and_its_twin(site: Path) -> None:
    page = (site / "reference/memory.html").read_text(encoding="utf-8")
    for cls in (Memory, UserMemory):
        names = [name for name in dir(cls) if not name.startswith("_")]
        assert len(names) > 7
        missing = [
            name
            for name in names
            if f'id="langmem_graph.{cls.__name__}.{name}"' not in page
        ]
        assert missing == []
    assert "Async twin of" in page


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        loaded = r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//"
        assert not re.search(loaded, page.read_text(encoding="utf-8")), page


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *_: None  # type: ignore[attr-defined]
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.enable_socket
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Debian's chromium")
def test_a_browser_reads_and_searches_it_without_another_host(site: Path) -> None:
    playwright_api = pytest.importorskip("playwright.sync_api")
    asked: list[str] = []
    with (
        loopback_alone(),
        served(site) as address,
        playwright_api.sync_playwright() as playwright,
    ):
        browser: Any = playwright.chromium.launch(
            executable_path=str(CHROMIUM),
            args=["--no-sandbox", "--disable-background-networking"],
        )
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index.html", "five-minutes.html", "reference/memory.html"):
            page.goto(address + name)
        page.locator("input.md-search__input").click()
        page.locator("input.md-search__input").fill("counterfactual")
        page.locator(".md-search-result__item").first.wait_for(timeout=20_000)
        browser.close()
    assert len(asked) > 5
    assert [
        url for url in asked if not url.startswith((address, "data:", "blob:"))
    ] == []
