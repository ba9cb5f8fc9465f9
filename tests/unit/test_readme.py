"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

from tests.unit.test_embeddings import needs_model

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@needs_model
def test_the_python_example_runs_as_shown(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::UserWarning", "-c", example],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    first, *others = done.stdout.splitlines()
    assert first.startswith("['m1', 'm-")
    assert "I always take an aisle seat." in others[0]
    assert "<memory>" in done.stdout


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for page in [*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_commands_of_the_readme_exist() -> None:
    targets = set(re.findall(r"^make (\w+)", README, re.MULTILINE))
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)
