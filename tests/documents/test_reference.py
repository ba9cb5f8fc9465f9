"""The reference has every public name, and the site every page in the order to read."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

import langmem_graph
from langmem_graph import errors, reports, schemas
from langmem_graph.cli.commands import app

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
BASES = {  # what others are made of, whose fields stand with these
    *("FrozenModel", "Labelled", "OriginatedModel", "RecordStatement", "ModelUsage"),
    *("ExtractionCounts", "CallNote", "NotCopied"),
}


def public_objects() -> dict[str, Any]:
    """What users import, and what methods give and raise: by name, each once."""
    found = {}
    for one in pkgutil.iter_modules(langmem_graph.__path__):
        module = import_module(f"langmem_graph.{one.name}")
        if one.name != "cli":
            found |= {
                name: getattr(module, name) for name in getattr(module, "__all__", [])
            }
    for home in (errors, reports, schemas):
        classes = inspect.getmembers(home, inspect.isclass)
        mine = {name: one for name, one in classes if one.__module__ == home.__name__}
        found |= {name: one for name, one in mine.items() if name not in BASES}
    return found | {
        name: getattr(langmem_graph, name) for name in langmem_graph.__all__
    }


def referred() -> list[str]:
    pages = (page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md"))
    return [
        name
        for text in pages
        for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    ]


def test_the_reference_has_every_public_name_once() -> None:
    names = [one.rsplit(".", 1)[1] for one in referred()]
    public = {name for name in public_objects() if not name.startswith("_")}
    assert len(public) > 100
    assert public - set(names) == set()
    assert len(names) == len(set(names))


def test_what_the_reference_names_can_be_imported_from_there() -> None:
    for path in referred():
        module, name = path.rsplit(".", 1)
        assert hasattr(import_module(module), name), path


def test_public_methods_say_what_they_do() -> None:
    for name, one in public_objects().items():
        if inspect.isclass(one) or inspect.isfunction(one):
            assert inspect.getdoc(one), name
    for cls in (langmem_graph.Memory, langmem_graph.UserMemory):
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            assert name.startswith("_") or inspect.getdoc(method), name


def test_the_command_line_page_has_every_command() -> None:
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    for command in app.registered_commands:
        name = command.name or command.callback.__name__  # type: ignore[union-attr]
        assert command.hidden or re.search(rf"\| `{name}[ `]", text), name


def in_nav(entry: Any) -> list[str]:
    """The paths of a part of the navigation, in order."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [path for part in parts for path in in_nav(part)]


def test_the_site_has_every_page_in_the_order_to_read() -> None:
    text = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    paths = in_nav(yaml.safe_load(re.sub(r"!!python\S+ \{.*\}", "x", text))["nav"])
    mine = [path for path in paths if not path.startswith("repository/")]
    assert set(mine) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\d+\. \[.*?\]\(([\w/-]+\.md)\)", index, re.MULTILINE)
    pages = [
        path for path in mine if not path.startswith("reference/") or "README" in path
    ]
    assert [path for path in listed if path != "dependencies.md"] == [
        path for path in pages if path not in {"README.md", "dependencies.md"}
    ]
