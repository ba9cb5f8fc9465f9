"""The inspector in a real browser: keys, round trips, hostile texts, contrast, foreign requests."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import pytest

from langmem_graph import Memory
from langmem_graph.inspector.app import server
from langmem_graph.inspector.rendering import link
from tests.support.inspected import ANA, BERLIN, DAYS, HOSTILE, PORTO, filled, record_of
from tests.support.loopback import loopback_alone

CHROMIUM = Path("/usr/bin/chromium")
if not CHROMIUM.exists():
    pytest.skip("needs Debian's chromium at /usr/bin/chromium", allow_module_level=True)
playwright_api = pytest.importorskip("playwright.sync_api")
AXE = Path(pytest.importorskip("axe_playwright_python").__file__).parent / "axe.min.js"

pytestmark = [pytest.mark.long, pytest.mark.enable_socket]
ARGUMENTS = """--no-sandbox --disable-gpu --disable-background-networking --no-first-run
--disable-sync --disable-component-update""".split()
TOKEN = "s3cret-token"
DESKTOP, TELEPHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LOOKS = [
    # all rules in both widths; of another theme only the colours can differ
    ("light", DESKTOP, {}),
    ("dark", DESKTOP, {"runOnly": ["color-contrast"]}),
    ("dark", TELEPHONE, {}),
    ("light", TELEPHONE, {"runOnly": ["color-contrast"]}),
]


@contextmanager
def served(memory: Memory) -> Iterator[str]:
    import socket

    running = server(memory, TOKEN, allow_changes=True)
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        thread = Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        while not running.started:
            sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, str]]:
    place = tmp_path_factory.mktemp("site") / "memory"
    with filled(place) as memory, served(memory) as address:
        yield memory, address


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with loopback_alone():
        yield


@pytest.fixture(scope="module")
def browser(site: object) -> Iterator[Any]:
    with playwright_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=ARGUMENTS
        )
        yield chromium
        chromium.close()


class Watched:
    """A page that notes errors on its console and requests to other hosts."""

    def __init__(self, browser: Any, address: str, **look: Any) -> None:
        self.context = browser.new_context(**look)
        self.page = self.context.new_page()
        self.address, self.faults = address, list[str]()
        self.page.on("console", self._noted)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._asked)
        self.page.goto(f"{address}?token={TOKEN}")

    def _noted(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.faults.append(said.text)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:")):
            self.faults.append(f"asked {request.url}")

    def open(self, name: str, **query: object) -> Any:
        self.page.goto(self.address + link(name, user=ANA, **query))
        return self.page


@pytest.fixture
def watched(browser: Any, site: tuple[Memory, str]) -> Iterator[Watched]:
    opened = Watched(browser, site[1])
    yield opened
    assert opened.faults == []
    opened.context.close()


def places(memory: Memory) -> list[str]:
    own = {"user": ANA}
    berlin, porto = record_of(memory, BERLIN), record_of(memory, PORTO)
    return [
        "./",
        link("person", **own),
        link("conversation", session="new", **own),
        link("conversation", session="<b>hostile</b>", **own),
        link("message", id="b", **own),
        link("layers", record=berlin, **own),
        link("record", id=porto, as_of="2026-01-15", **own),
        link("ask", q="Where do I live?", **own),
        link("schedule", **own) + "&" + DAYS,
        link("compare", first="2026-01-15", second="2026-02-15", **own),
        link("calls", doctor=1, **own),
        link("graph", id=berlin, **own),
        link("forget", message="b", **own),
    ]


# All rules hold in both themes and widths in the gate; the other two pairs in `make stress`.
@pytest.mark.parametrize(
    "looks", [LOOKS[::2], pytest.param(LOOKS, marks=pytest.mark.stress)]
)
def test_no_page_breaks_a_rule_of_accessibility(
    site: tuple[Memory, str], watched: Watched, looks: list[Any]
) -> None:
    page = watched.page
    for place in places(site[0]):
        page.goto(site[1] + place)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for theme, size, options in looks:
            page.set_viewport_size(size)
            page.emulate_media(color_scheme=theme)
            found = page.evaluate("(options) => axe.run(document, options)", options)
            told = [
                (one["id"], [node["html"] for node in one["nodes"]])
                for one in found["violations"]
            ]
            assert told == [], (place, theme, size)
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{place} is {wide} pixels too wide"


def test_the_token_is_neither_in_the_address_nor_in_the_history(
    watched: Watched,
) -> None:
    page = watched.page
    assert page.url == watched.address
    page.go_back()
    assert "token" not in page.url
    assert "token" not in page.content()


def test_from_the_question_to_its_source_by_keys_alone(watched: Watched) -> None:
    page = watched.open("person")
    page.keyboard.press("/")
    page.keyboard.type("Where in Berlin do I live?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ask?**")
    page.locator(".context a", has_text=re.compile("^b$")).focus()
    assert page.evaluate("document.activeElement.closest('.context') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url("**/message?**")
    assert "I moved to Berlin last week." in page.inner_text("main")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == BERLIN:
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/record?**")
    assert page.inner_text("h1") == BERLIN
    page.go_back()
    page.go_back()
    assert page.input_value("#q") == "Where in Berlin do I live?"


def test_hostile_texts_stay_texts(watched: Watched) -> None:
    for place in ("layers", "ask"):
        page = watched.open(place, q="script onerror javascript invoice pwned")
        text = page.inner_text("main")
        assert "<script>" in text
        assert "onerror=" in text
        assert "pwned" not in page.title()
    for name, text in HOSTILE.items():
        page = watched.open("message", id=name)
        assert page.inner_text("blockquote.said").strip() == text
        assert page.locator("main script, main img, main b").count() == 0
        assert page.title() == "Message · memory"
    assert "שלום" in watched.open("message", id="rtl").inner_text("blockquote.said")


def test_the_lines_and_the_theme_are_drawn(
    watched: Watched, site: tuple[Memory, str]
) -> None:
    page = watched.open("layers", record=record_of(site[0], BERLIN))
    assert page.locator(".lines-between path").count() >= 2
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark


def test_correct_undo_and_forget_round_trips(
    browser: Any, tmp_path: Path, site: object
) -> None:
    with filled(tmp_path / "own") as memory, served(memory) as address:
        watched = Watched(browser, address)
        ana = memory.user(ANA)
        page = watched.open("record", id=record_of(memory, BERLIN))
        page.fill("#text", "The user lives in Bern.")
        page.get_by_role("button", name="Correct").click()
        assert page.inner_text("h1") == "The user lives in Bern."
        assert page.locator("ol.chain li").count() == 3
        page.get_by_role("button", name="Undo its latest change").click()
        assert page.inner_text(".done") == "Undone."
        assert ana.get_records(record_of(memory, BERLIN))[0].status == "active"
        page = watched.open("message", id="b")
        page.get_by_role("link", name="Forget…").click()
        assert BERLIN in page.inner_text(".cascade")
        assert ana.get_conversation("b")
        page.get_by_role("button", name="Forget for good").click()
        assert "Forgotten" in page.inner_text(".done")
        assert not ana.get_conversation("b")
        page = watched.open("ask", q="Where do I live?")
        page.get_by_role("button", name="Reason about it").click()
        page.wait_for_selector("#proof")
        assert watched.faults == []
        watched.context.close()
