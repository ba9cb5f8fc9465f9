"""What the site needs beyond docs/: hooks of mkdocs, and an extension of griffe; see
mkdocs.yml.

The documents link to files of the repository, such as `../ARCHITECTURE.md`, as a
repository's host shows them. The site gets a page for each file that is linked, below
`repository/`.
"""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from griffe import Attribute, Docstring, Extension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[1]
FOLDER = "repository"
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)\s#]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


class Twins(Extension):
    """Methods that `twin` makes are documented as what they are."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Say of `aadd = twin(add)` whose twin it is."""
        if made := re.fullmatch(r"twin\((\w+)\)", str(attr.value)):
            text = (
                f"Async twin of `{made[1]}`: the same arguments and answer, to be "
                "awaited."
            )
            attr.docstring = Docstring(text, parent=attr)


def place(path: str) -> str:
    """Where the site has a file or folder of the repository; a page is a `.md`."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"{FOLDER}/{path}" + ("" if path.endswith(".md") else ".md")


def source(uri: str) -> str:
    """The path in the repository of a page of the site."""
    return (
        uri.removeprefix(f"{FOLDER}/")
        if uri.startswith(f"{FOLDER}/")
        else f"docs/{uri}"
    )


def linked(text: str, path: str) -> set[str]:
    """The paths in the repository that the document at this path links to."""
    parts = CODE.split(text)[::2]
    targets = [one[2] for part in parts for one in LINK.finditer(part)]
    return {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), one))
        for one in targets
    }


def shown(path: str) -> str:
    """A file or folder of the repository as a page."""
    file = REPOSITORY / path
    if path.endswith(".md"):
        return file.read_text(encoding="utf-8")
    if file.is_dir():
        names = sorted(
            one.name for one in file.iterdir() if one.suffix in {".py", ".ipynb"}
        )
        return f"# {path}\n\n" + "".join(
            f"- [{one}]({file.name}/{one})\n" for one in names
        )
    if file.suffix == ".ipynb":
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        return "\n\n".join(part for cell in cells for part in parts(cell))
    kind = "python" if file.suffix == ".py" else "text"
    return f"# {path}\n\n```{kind}\n{file.read_text(encoding='utf-8')}\n```\n"


def parts(cell: dict[str, Any]) -> Iterator[str]:
    """A notebook's cell and what it printed, as Markdown."""
    source = "".join(cell["source"])
    yield f"```python\n{source}\n```" if cell["cell_type"] == "code" else source
    for output in cell.get("outputs", []):
        yield "```text\n" + "".join(output["text"]) + "```"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that a page links to, directly or through
    another.
    """
    texts = {
        source(one.src_uri): one.content_string for one in files.documentation_pages()
    }
    due = list(texts.items())
    while due:
        path, text = due.pop()
        for target in sorted(linked(text, path)):
            inside = (
                target.startswith(("docs/", "..")) or not (REPOSITORY / target).exists()
            )
            if target in texts or inside:
                continue
            texts[target] = shown(target)
            files.append(File.generated(config, place(target), content=texts[target]))
            if target.endswith((".md", ".ipynb")) or (REPOSITORY / target).is_dir():
                due.append((target, texts[target]))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Lead links to files of the repository to their pages."""
    path = source(
        page.file.src_uri.removesuffix(".md") if is_code(page) else page.file.src_uri
    )

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[2]))
        here = posixpath.dirname(page.file.src_uri) or "."
        return link[1] + posixpath.relpath(place(target), here) + link[3]

    parts = CODE.split(markdown)
    return "".join(
        one if index % 2 else LINK.sub(moved, one) for index, one in enumerate(parts)
    )


def is_code(page: Page) -> bool:
    """True for the page of a file that is no Markdown."""
    return not (REPOSITORY / source(page.file.src_uri)).exists()
