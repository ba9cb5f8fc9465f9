"""The documents name what exists: links, paths, commands, settings, and Python that can be run."""

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from langmem_graph.extraction import graph as extraction_graph
from langmem_graph.grounding import graph as grounding_graph
from langmem_graph.reasoning import goal_loop
from langmem_graph.settings import Settings

REPOSITORY = Path(__file__).parents[2]
FOLDERS = ("langmem_graph", "tests", "benchmarks", "examples", "graphs", "tools")
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/**/*.md")
    for page in REPOSITORY.glob(pattern)
)
MAP, GLOSSARY, UPGRADING = (
    REPOSITORY / name
    for name in ("ARCHITECTURE.md", "docs/glossary.md", "docs/upgrading.md")
)
LONGEST_LINE, LONGEST_MAP, MOST_WORDS = 150, 200, 25


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(REPOSITORY)) for page in pages]


every_page = pytest.mark.parametrize("page", PAGES, ids=named(PAGES))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


@every_page
def test_a_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text_of(page)):
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@cache
def files_by_name() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for folder in FOLDERS:
        for file in (REPOSITORY / folder).rglob("*"):
            found.setdefault(file.name, []).append(file)
    return found


def exists(path: str) -> bool:
    """True for a path from the root or in the package, and for the name of one of our files."""
    roots = (REPOSITORY, REPOSITORY / "langmem_graph", REPOSITORY / "benchmarks")
    return any((root / path).exists() for root in roots) or path in files_by_name()


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != UPGRADING], ids=lambda page: page.name
)
def test_a_path_that_is_named_exists(page: Path) -> None:
    for path in re.findall(r"(?<![\w./*])[\w./-]+\.py\b", text_of(page)):
        assert exists(path), path


def test_the_map_names_files_folders_and_prompts_that_exist() -> None:
    spans = re.findall(r"`([\w/.]+(?:\.\w+|/))`", text_of(MAP))
    paths = [one for one in spans if one.endswith((".py", ".txt", ".md", ".toml", "/"))]
    assert len(paths) > 50
    assert [path for path in paths if not exists(path)] == []


def test_the_map_names_every_step_and_every_prompt() -> None:
    rows = text_of(MAP)
    prompts = (REPOSITORY / "langmem_graph/llm/prompts").glob("*.txt")
    assert [one.name for one in prompts if one.name not in rows] == []
    graphs = [extraction_graph.STEPS, goal_loop._STEPS, grounding_graph.STEPS]
    for step in (step for steps in graphs for step in steps):
        file = step.__module__.removeprefix("langmem_graph.").replace(".", "/") + ".py"
        assert file in rows, step.__name__


def blocks(page: Path) -> Iterator[str]:
    for block in re.findall(
        r"^ *```python\n(.*?)^ *```", text_of(page), re.DOTALL | re.MULTILINE
    ):
        yield textwrap.dedent(block)


@every_page
def test_python_that_is_shown_parses_and_its_imports_work(page: Path) -> None:
    for block in blocks(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "langmem_graph"
            ):
                module = importlib.import_module(node.module or "")
                assert [
                    one.name for one in node.names if not hasattr(module, one.name)
                ] == []


@every_page
def test_commands_exist(page: Path) -> None:
    text = text_of(page)
    makefile = text_of(REPOSITORY / "Makefile")
    for target in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.MULTILINE):
        assert f"\n{target}:" in makefile, target
    for module in re.findall(r"python -m (benchmarks\.[a-z_]+|tests\.\w+\.\w+)", text):
        path = REPOSITORY / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), (
            module
        )


def is_setting(path: str) -> bool:
    """True for `context.k`, a group and a setting in it, or for a setting of no group."""
    group, _, name = path.rpartition(".")
    fields = type(getattr(Settings(), group)) if group else Settings
    return name in fields.model_fields


@every_page
def test_settings_exist(page: Path) -> None:
    for path in re.findall(r"`Settings\.(\w+(?:\.\w+)?)`", text_of(page)):
        assert is_setting(path), path


def test_upgrading_names_every_setting() -> None:
    section = text_of(UPGRADING).split("## Settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)
    new = [one for _, right in rows for one in re.findall(r"`(\w+\.\w+)`", right)]
    assert new
    assert [path for path in new if not is_setting(path)] == []
    for left, right in rows:
        if same := re.search(r"the same names in `(\w+)`", right):
            names = re.findall(r"`(\w+)`", left)
            assert all(is_setting(f"{same[1]}.{name}") for name in names), left


@every_page
def test_lines_can_be_read_in_an_editor(page: Path) -> None:
    lines = enumerate(text_of(page).splitlines(), 1)
    assert [number for number, line in lines if len(line) > LONGEST_LINE] == []


def test_the_map_and_the_glossary_stay_short() -> None:
    assert len(text_of(MAP).splitlines()) <= LONGEST_MAP
    assert len(re.findall(r"^\| \*\*", text_of(GLOSSARY), re.MULTILINE)) <= MOST_WORDS


def test_the_methods_page_names_every_prompt_and_files_of_the_map() -> None:
    page, rows = text_of(REPOSITORY / "docs/methods.md"), text_of(MAP)
    prompts = (REPOSITORY / "langmem_graph/llm/prompts").glob("*.txt")
    assert [one.name for one in prompts if f"prompts/{one.name})" not in page] == []
    steps = re.findall(r"`(\w+/\w+\.py|test_\w+\.py)`", page)
    assert len(steps) > 50
    assert [path for path in steps if path not in rows] == []


def test_every_page_is_in_the_order_to_read() -> None:
    listed = set(
        re.findall(r"\]\(([\w-]+\.md)\)", text_of(REPOSITORY / "docs/README.md"))
    )
    assert listed == {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {
        "README.md"
    }
