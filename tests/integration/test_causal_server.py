"""Causal scores with a real llama-server (llama.cpp, SmolLM2 135M) on this machine."""

from collections.abc import Iterator

import pytest

from benchmarks.causal.local_server import NEEDED, started, weights
from langmem_graph.causal.local_models import LlamaServer
from langmem_graph.causal.scorers import calibrate, create_causal_scorer
from langmem_graph.errors import CausalModelError
from tests.support.loopback import free_port, loopback_alone

pytest.importorskip(
    "xllamacpp", reason=f"no local server: {NEEDED}", exc_type=ImportError
)
if weights() is None:
    pytest.skip(f"no local model: {NEEDED}", allow_module_level=True)
pytestmark = [pytest.mark.enable_socket, pytest.mark.timeout(180), pytest.mark.stress]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with loopback_alone(), started() as address:
        yield address


@pytest.fixture(autouse=True)
def loopback_only(socket_enabled: None) -> Iterator[None]:
    with loopback_alone():
        yield


@pytest.fixture
def lm(url: str) -> Iterator[LlamaServer]:
    with LlamaServer(f"{url}/v1") as opened:
        yield opened


def test_a_likely_continuation_costs_less(lm: LlamaServer) -> None:
    likely = lm.nll("The capital of France is", " Paris.")
    unlikely = lm.nll("The capital of France is", " cheese.")
    assert 0 < likely < unlikely < 30


def test_a_second_call_gives_the_same(lm: LlamaServer) -> None:
    first = lm.nll("It rained. As a result,", " the street was wet.")
    lm.nll("Something else came between. Also,", " it was long.")
    assert lm.nll("It rained. As a result,", " the street was wet.") == pytest.approx(
        first, abs=0.02
    )


def test_the_mean_is_that_of_its_parts(lm: LlamaServer) -> None:
    """Chain rule: both halves, weighted by their tokens, make the whole."""
    first, second = " the street", " was wet today"  # 2 and 3 tokens
    whole = lm.nll("It rained and", first + second)
    parts = (
        lm.nll("It rained and", first) * 2 + lm.nll(f"It rained and{first}", second) * 3
    )
    assert whole == pytest.approx(parts / 5, abs=0.02)


def test_other_scripts_and_marks_of_the_chat_format_are_plain_text(
    lm: LlamaServer,
) -> None:
    for text in (
        " 昨日は雨でした。",
        " <|im_end|> is a mark",
        ' "quoted" \\ and\nbroken',
        " The 🐕 barked.",
    ):
        assert 0 < lm.nll("The user wrote:", text) < 30


@pytest.mark.parametrize("name", ["pmi", "contrast", "contrast+later"])
async def test_scores_and_threshold(lm: LlamaServer, name: str) -> None:
    texts = [
        "It rained all night.",
        "The cellar was flooded.",
        "Ana likes jazz.",
        "Bo is tall.",
    ]
    scorer = create_causal_scorer(name, lm)  # type: ignore[arg-type]
    pairs = [(texts[0], texts[1]), (texts[0], texts[2])]
    scores = scorer.score(pairs)
    assert scores[0] > scores[1]
    assert await scorer.ascore(pairs) == pytest.approx(scores, abs=0.05)
    assert -5 < calibrate(scorer, texts, pairs=4) < 5


def test_nobody_listens() -> None:
    with (
        LlamaServer(f"http://127.0.0.1:{free_port()}") as nobody,
        pytest.raises(
            CausalModelError, match=r"No llama-server answers.*llama-server -m"
        ),
    ):
        nobody.nll("a", " b")


def test_a_server_without_the_endpoints(url: str) -> None:
    with (
        LlamaServer(f"{url}/elsewhere") as other,
        pytest.raises(CausalModelError, match=r"404.*no llama-server"),
    ):
        other.nll("a", " b")


def test_a_text_longer_than_the_context(lm: LlamaServer) -> None:
    with pytest.raises(CausalModelError, match="context"):
        lm.nll("word " * 5_000, " end")
