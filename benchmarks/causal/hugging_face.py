"""A language model of `transformers` for the causal scorers, as the paper's (ActMem
1.2).
"""

import threading
from functools import cached_property
from typing import Any

from langmem_graph.causal.local_models import shared_start
from langmem_graph.errors import CausalModelError, MissingExtraError


class HuggingFaceModel:
    """A causal language model of `transformers`, loaded at its first use, on the CPU.

    It counts every token, also one that is only a part of a character.

    Args:
        model: a name on the hub, such as `gpt2-large`, the paper's (ActMem 1.2), or a
            folder.
        options: passed to both `from_pretrained` calls, such as `revision` or
            `gguf_file`.
    """

    def __init__(self, model: str, **options: Any) -> None:
        self.model_name = model
        self._options = options
        self._loading = threading.Lock()

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean nats per token of the continuation.

        Raises:
            MissingExtraError: transformers or torch is not installed.
            CausalModelError: the model cannot be loaded, or the text is too long for
                it.
        """
        with self._loading:
            torch, tokenizer, model = self._loaded
        whole = tokenizer(prefix + continuation)["input_ids"]
        start = shared_start(tokenizer(prefix)["input_ids"], whole)
        self._check(model, start, len(whole))
        with torch.inference_mode():
            logits = model(torch.tensor([whole])).logits[0, start - 1 : -1].float()
        return float(
            torch.nn.functional.cross_entropy(logits, torch.tensor(whole[start:]))
        )

    def _check(self, model: Any, start: int, length: int) -> None:
        limit = getattr(model.config, "max_position_embeddings", None)
        if limit and length > limit:
            raise CausalModelError(
                f"{self.model_name} reads {limit} tokens at most, the pair has "
                f"{length}."
            )
        if not 0 < start < length:
            raise CausalModelError(
                f"The tokenizer of {self.model_name} leaves nothing before or "
                "after "
                "the cut."
            )

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Any]:
        """The torch module, the tokenizer and the model."""
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(
                f"HuggingFaceModel needs transformers and torch ({error})."
            ) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(self.model_name, **self._options)
            model = AutoModelForCausalLM.from_pretrained(
                self.model_name, **self._options
            )
        except Exception as error:  # files, hub, formats: each raises errors of its own
            raise CausalModelError(
                f"The causal model {self.model_name!r} cannot be loaded"
                f" ({type(error).__name__}: {error}). Name a model of the hub or a "
                "folder."
            ) from error
        return torch, tokenizer, model.eval()
