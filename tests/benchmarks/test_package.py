"""What measures is beside the package, not in it."""

import re
from pathlib import Path
from zipfile import ZipFile

from hatchling.builders.wheel import WheelBuilder

from langmem_graph import __version__
from tools.check_release import data_files, missing_from  # noqa: TID251  # in a checkout

REPOSITORY = Path(__file__).parents[2]
_IMPORT = re.compile(r"^\s*(?:from|import) benchmarks\b", re.MULTILINE)


def test_the_wheel_holds_the_package_alone(tmp_path):
    (wheel,) = WheelBuilder(str(REPOSITORY)).build(
        directory=str(tmp_path), versions=["standard"]
    )
    names = ZipFile(wheel).namelist()
    assert {Path(name).parts[0] for name in names} == {
        "langmem_graph",
        f"langmem_graph-{__version__}.dist-info",
    }
    assert not [name for name in names if "bench" in name]


def test_the_wheel_has_every_prompt_template_and_word_list(tmp_path: Path) -> None:
    builder = WheelBuilder(str(REPOSITORY))
    (built,) = builder.build(directory=str(tmp_path), versions=["standard"])
    assert len(data_files()) > 35
    assert missing_from(Path(built)) == set()
    poorer = tmp_path / "poorer.whl"
    with ZipFile(built) as whole, ZipFile(poorer, "w") as part:
        for name in whole.namelist():
            if not name.endswith(("fill.txt", "base.html")):
                part.writestr(name, whole.read(name))
    assert missing_from(poorer) == {
        "langmem_graph/llm/prompts/fill.txt",
        "langmem_graph/inspector/templates/base.html",
    }


def test_the_package_imports_nothing_that_measures():
    modules = list((REPOSITORY / "langmem_graph").rglob("*.py"))
    assert len(modules) > 50
    assert not [
        file for file in modules if _IMPORT.search(file.read_text(encoding="utf-8"))
    ]
