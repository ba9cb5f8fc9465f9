"""The peers' own virtual environment and the process that runs a peer in it."""

import json
import os
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings

from benchmarks import common

_HERE = Path(__file__).resolve().parent
_SHOWN = 1_500  # characters of a failed peer's last words


def environment(folder: Path) -> Path:
    """Its Python; installed once, and again when the requirements change."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted, mark = _HERE / "requirements.txt", folder / "installed.txt"
    text = wanted.read_text(encoding="utf-8")
    if not (mark.exists() and mark.read_text(encoding="utf-8") == text):
        common.console.print(f"Installing the peers into {folder}")
        venv.create(folder, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(wanted)]
        subprocess.run(install, check=True)
        mark.write_text(text, encoding="utf-8")
    return python


def write_job(
    folder: Path, job: dict[str, Any], texts: Sequence[str], embeddings: Embeddings
) -> None:
    """What a peer needs: the job and the vectors of all its texts."""
    distinct = list(dict.fromkeys(texts))
    matrix = np.asarray(embeddings.embed_documents(distinct), dtype=np.float32)
    np.savez(
        folder / "vectors.npz", texts=np.array(json.dumps(distinct)), matrix=matrix
    )
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")


def run_all(systems: Sequence[str], folder: Path, python: Path) -> dict[str, Any]:
    """What each peer found, or its error as a text."""
    return {system: _run(system, folder, python) for system in systems}


def _run(system: str, folder: Path, python: Path) -> Any:
    common.console.print(f"Running {system}")
    command = [str(python), str(_HERE / "worker.py"), str(folder), system]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        common.console.print(done.stderr[-_SHOWN:], markup=False)
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[
            -1
        ]
        return f"failed: {last}"
    return json.loads((folder / f"{system}.json").read_text(encoding="utf-8"))
