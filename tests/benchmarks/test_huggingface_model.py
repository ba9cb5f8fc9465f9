"""A model of transformers that scores continuations."""

import sys
from pathlib import Path

import pytest

from benchmarks.causal.hugging_face import HuggingFaceModel
from langmem_graph.errors import CausalModelError, LangMemGraphError, MissingExtraError


@pytest.mark.parametrize("module", ["torch", "transformers"])
def test_a_missing_extra_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match="transformers and torch") as raised:
        HuggingFaceModel("any").nll("a", " b")
    assert isinstance(raised.value, LangMemGraphError)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A model of random numbers that knows six words."""
    pytest.importorskip("torch", reason="no torch: pip install torch transformers")
    transformers = pytest.importorskip("transformers", reason="no transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = {
        word: place
        for place, word in enumerate(["[UNK]", "It", "rained", "Bo", "fell", "."])
    }
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]"
    )
    fast.save_pretrained(tmp_path)
    transformers.set_seed(0)
    size = {"vocab_size": 6, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)).save_pretrained(
        tmp_path
    )
    return tmp_path


def test_a_model_of_transformers_gives_the_mean_of_its_log_probabilities(
    tiny: Path,
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model, ids = AutoModelForCausalLM.from_pretrained(tiny).eval(), [1, 2, 5, 3, 4]
    with torch.no_grad():  # word by word, each after all before it
        nats = [
            -float(
                model(torch.tensor([ids[:place]]))
                .logits[0, -1]
                .log_softmax(-1)[ids[place]]
            )
            for place in (3, 4)
        ]
    found = HuggingFaceModel(str(tiny)).nll("It rained.", " Bo fell")
    assert found == pytest.approx(sum(nats) / 2, abs=1e-5)


def test_a_model_of_transformers_that_cannot_be_used(tiny: Path) -> None:
    with pytest.raises(CausalModelError, match="8 tokens at most, the pair has 10"):
        HuggingFaceModel(str(tiny)).nll("It rained.", " Bo" * 7)
    with pytest.raises(CausalModelError, match="cannot be loaded"):
        HuggingFaceModel(str(tiny / "nothing")).nll("a", " b")
