"""Local language models for the causal scorers: Hugging Face in this process, or a llama-server.

Both tell the mean negative log-likelihood of a continuation after a prefix.
"""

import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby, takewhile
from statistics import fmean
from typing import Any, Self

import httpx

from langmem_graph.errors import CausalModelError, InvalidInputError, MissingExtraError

Token = tuple[int, bool]
"""The id of a token, and whether it consists of whole characters."""
TIMEOUT_SECONDS = 60.0
_NOT_FOUND, _UNAUTHORIZED = (404, 405, 501), (401, 403)


def check_texts(prefix: str, continuation: str) -> None:
    """Refuse an empty prefix or continuation.

    Raises:
        InvalidInputError: one of the two is empty.
    """
    if not prefix.strip() or not continuation.strip():
        raise InvalidInputError(
            "A causal score needs text before and after: got"
            f" {prefix[:40]!r} and {continuation[:40]!r}. Leave out records without text."
        )


def shared_start(prefix: Sequence[object], whole: Sequence[object]) -> int:
    """How many first tokens of the whole text belong to the prefix.

    Some tokenizers join the last token of a prefix with what follows it; that token then counts as
    part of the continuation.
    """
    pairs = zip(prefix, whole, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class HuggingFaceModel:
    """A causal language model of `transformers`, loaded at its first use, on the CPU.

    It counts every token, also one that is only a part of a character.

    Args:
        model: a name on the hub, such as `gpt2-large`, the paper's (ActMem 1.2), or a folder.
        options: passed to both `from_pretrained` calls, such as `revision` or `gguf_file`.
    """

    def __init__(self, model: str, **options: Any) -> None:
        self.model_name = model
        self._options = options
        self._loading = threading.Lock()

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean nats per token of the continuation.

        Raises:
            InvalidInputError: one of the two is empty.
            MissingExtraError: transformers or torch is not installed.
            CausalModelError: the model cannot be loaded, or the text is too long for it.
        """
        check_texts(prefix, continuation)
        with self._loading:
            torch, tokenizer, model = self._loaded
        whole = tokenizer(prefix + continuation)["input_ids"]
        start = shared_start(tokenizer(prefix)["input_ids"], whole)
        self._check(model, start, len(whole))
        with torch.inference_mode():
            logits = model(torch.tensor([whole])).logits[0, start - 1 : -1].float()
        return float(torch.nn.functional.cross_entropy(logits, torch.tensor(whole[start:])))

    def _check(self, model: Any, start: int, length: int) -> None:
        limit = getattr(model.config, "max_position_embeddings", None)
        if limit and length > limit:
            raise CausalModelError(
                f"{self.model_name} reads {limit} tokens at most, the pair has {length}."
            )
        if not 0 < start < length:
            raise CausalModelError(
                f"The tokenizer of {self.model_name} leaves nothing before or after the cut."
            )

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Any]:
        """The torch module, the tokenizer and the model."""
        try:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise MissingExtraError(
                f"HuggingFaceModel needs transformers and torch ({error}):"
                ' pip install "langmem-graph[causal]"'
            ) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(self.model_name, **self._options)
            model = AutoModelForCausalLM.from_pretrained(self.model_name, **self._options)
        except Exception as error:  # files, hub, formats: each raises errors of its own
            raise CausalModelError(
                f"The causal model {self.model_name!r} cannot be loaded"
                f" ({type(error).__name__}: {error}). Name a model of the hub or a folder."
            ) from error
        return torch, tokenizer, model.eval()


class LlamaServer:
    """A llama-server's probabilities of a given text: three requests for each text.

    The server reports probabilities of what it generates, not of its prompt. So a grammar forces it
    to generate the continuation token by token; the time grows with the continuation's length.
    A token that is only a part of a character (in emoji, and in scripts that the model hardly
    knows) cannot be forced: it is read, but not counted.

    Args:
        url: the server's address, such as `http://127.0.0.1:8080`, with or without a final `/v1`.
        api_key: the server's `--api-key`; default none.
        timeout: seconds to wait for an answer; default 60.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        self.url = url.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx.Client(headers=headers, timeout=timeout)

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean nats per token of the continuation.

        Raises:
            InvalidInputError: one of the two is empty.
            CausalModelError: there is no server, it is no llama-server or too old, it requires a
                key, or the texts do not fit its context.
        """
        check_texts(prefix, continuation)
        whole = self._tokens(prefix + continuation)
        start = shared_start(self._tokens(prefix), whole)
        ids = [token for token, _ in whole]
        runs = _whole_runs(whole, start) if start else []
        nats = [nat for first, end in runs for nat in self._forced(ids[:first], ids[first:end])]
        if not nats:
            raise CausalModelError(
                f"The server's tokenizer leaves no whole character of {continuation[:20]!r} after"
                f" {prefix[-20:]!r}. Use a model that knows the language."
            )
        return -fmean(nats)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _tokens(self, text: str) -> list[Token]:
        """The text's tokens; special tokens that its characters spell are read as plain text."""
        options = {"add_special": True, "parse_special": False, "with_pieces": True}
        answer = self._ask("/tokenize", {"content": text, **options}, "tokens")
        return [(int(token["id"]), isinstance(token["piece"], str)) for token in answer]

    def _forced(self, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """The log-probabilities of these tokens after the prompt."""
        body = {
            "prompt": list(prompt),
            "grammar": f"root ::= {' '.join(f'<[{token}]>' for token in tokens)}",
            "n_predict": len(tokens),
            "n_probs": 1,
            "temperature": 0.0,
        }
        answer = self._ask("/completion", body, "completion_probabilities")
        if [token.get("id") for token in answer] != list(tokens):
            raise CausalModelError(
                f"The server at {self.url} did not write the tokens its grammar names: it is too"
                " old. Update llama.cpp, or choose the causal scorer 'verifier'."
            )
        return [float(token["logprob"]) for token in answer]

    def _ask(self, path: str, body: dict[str, Any], wanted: str) -> list[Any]:
        if self._client.is_closed:
            raise CausalModelError(f"The connection to {self.url} was closed; make another.")
        try:
            answer = self._client.post(f"{self.url}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CausalModelError(
                f"No llama-server answers at {self.url} ({type(error).__name__}: {error}). Start"
                " one with `llama-server -m model.gguf`, or choose the causal scorer 'verifier'."
            ) from error
        if answer.is_error:
            raise CausalModelError(f"{self.url}{path} answered {_explained(answer)}")
        try:
            return list(answer.json()[wanted])
        except (ValueError, KeyError, TypeError) as error:
            raise CausalModelError(
                f"{self.url}{path} answered without {wanted!r}: a llama-server of 2025 or later"
                " is needed, without a proxy that rewrites its answers."
            ) from error


def _whole_runs(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int]]:
    """The runs of tokens of whole characters from `start` on: where each begins and ends."""
    for is_whole, run in groupby(range(start, len(tokens)), key=lambda place: tokens[place][1]):
        places = list(run)
        if is_whole:
            yield places[0], places[-1] + 1


def _explained(answer: httpx.Response) -> str:
    problem = f"{answer.status_code}: {answer.text[:200]}"
    if answer.status_code in _NOT_FOUND:
        return f"{problem}. This is no llama-server; only that has /tokenize and /completion."
    if answer.status_code in _UNAUTHORIZED:
        return f"{problem}. Give the server's key as `api_key`."
    return f"{problem}. Texts too long for the server's context need a larger `-c`."
