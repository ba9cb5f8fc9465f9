"""A llama-server as the language model of the causal scorers."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, takewhile
from statistics import fmean
from typing import Any, Self, TypeVar

import httpx

from langmem_graph.errors import CausalModelError
from langmem_graph.server_urls import as_shown, bare_key, login_apart, shown_url

T = TypeVar("T")
Token = tuple[int, bool]
"""The id of a token, and whether it consists of whole characters."""
TIMEOUT_SECONDS = 60.0
_NOT_FOUND = (404, 405, 501)
_UNAUTHORIZED = (401, 403)
_UNREADABLE = (ValueError, LookupError, TypeError, OverflowError, RecursionError)
"""What reading a malformed answer raises."""


def shared_start(prefix: Sequence[object], whole: Sequence[object]) -> int:
    """How many first tokens of the whole text belong to the prefix.

    Some tokenizers join the last token of a prefix with what follows it; that token
    then counts as part of the continuation.
    """
    pairs = zip(prefix, whole, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class LlamaServer:
    """A llama-server's probabilities of a given text: three requests for each text.

    The server reports probabilities of what it generates, not of its prompt. So a
    grammar forces it to generate the continuation token by token; the time grows with
    the continuation's length. A token that is only a part of a character (in emoji, and
    in scripts that the model hardly knows) cannot be forced: it is read, but not
    counted.

    Args:
        url: the server's address, such as `http://127.0.0.1:8080`, with or without a
            final `/v1`; it may have a user and password for a proxy.
        api_key: the server's `--api-key`, which is sent instead of a user and password;
            default none.
        timeout: seconds to wait for an answer; default 60.

    Raises:
        InvalidInputError: it is no URL of http or https, or one with a query; or no
            header can hold the key.
        CausalModelError: a proxy of the environment cannot be used.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        address, headers = login_apart(url)
        self.url = address.rstrip("/").removesuffix("/v1")
        self._shown = shown_url(self.url)
        if key := bare_key(api_key or ""):
            headers = {"Authorization": f"Bearer {key}"}
        try:
            self._client = httpx.Client(headers=headers, timeout=timeout)
        except (ValueError, ImportError, httpx.InvalidURL) as error:  # of a proxy
            why, cause = as_shown(error)
            raise CausalModelError(
                f"The llama-server at {self._shown} cannot be asked: {why}. Correct "
                "the environment's proxies, or name the server in NO_PROXY."
            ) from cause

    def nll(self, prefix: str, continuation: str) -> float:
        """Mean nats per token of the continuation.

        Raises:
            CausalModelError: one of the two is empty, there is no server, it is no
                llama-server or too old, it requires a key, or the texts do not fit its
                context.
        """
        whole = self._tokens(prefix + continuation)
        start = shared_start(self._tokens(prefix), whole)
        ids = [token for token, _ in whole]
        runs = _whole_runs(whole, start) if start else []
        nats = [
            nat
            for first, end in runs
            for nat in self._forced(ids[:first], ids[first:end])
        ]
        if not nats:
            raise CausalModelError(
                "The server's tokenizer leaves no whole character of "
                f"{continuation[:20]!r} after"
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
        """The text's tokens; special tokens that its characters spell are read as plain
        text.
        """
        options = {"add_special": True, "parse_special": False, "with_pieces": True}
        body = {"content": text, **options}
        return self._ask("/tokenize", body, "tokens", _token)

    def _forced(self, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """The log-probabilities of these tokens after the prompt."""
        body = {
            "prompt": list(prompt),
            "grammar": f"root ::= {' '.join(f'<[{token}]>' for token in tokens)}",
            "n_predict": len(tokens),
            "n_probs": 1,
            "temperature": 0.0,
        }
        written = self._ask(
            "/completion", body, "completion_probabilities", _probability
        )
        if [token for token, _ in written] != list(tokens):
            raise CausalModelError(
                f"The server at {self._shown} did not write the tokens its grammar "
                "names: it is too"
                " old. Update llama.cpp, or choose the causal scorer 'verifier'."
            )
        return [nat for _, nat in written]

    def _ask(
        self, path: str, body: dict[str, Any], wanted: str, read: Callable[[Any], T]
    ) -> list[T]:
        """The parts of the list that is wanted of an answer, each of them read."""
        if self._client.is_closed:
            raise CausalModelError(
                f"The connection to {self._shown} was closed; make another."
            )
        try:
            answer = self._client.post(f"{self.url}{path}", json=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            why, cause = as_shown(error)
            if self._shown != self.url:  # the error may quote what is not shown
                why, cause = type(error).__name__, None
            raise CausalModelError(
                f"No llama-server answers at {self._shown} ({why}). Start one with "
                "`llama-server -m model.gguf`, or choose the causal scorer 'verifier'."
            ) from cause
        if answer.is_error:
            raise CausalModelError(f"{self._shown}{path} answered {_explained(answer)}")
        try:
            return [read(part) for part in answer.json()[wanted]]
        except _UNREADABLE as error:
            raise CausalModelError(
                f"{self._shown}{path} answered without {wanted!r}: a llama-server of "
                "2025 or later"
                " is needed, without a proxy that rewrites its answers."
            ) from error


def _token(told: Any) -> Token:
    return int(told["id"]), isinstance(told["piece"], str)


def _probability(told: Any) -> tuple[object, float]:
    """The id of a token that was written, and its log-probability."""
    return told["id"], float(told["logprob"])


def _whole_runs(tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int]]:
    """The runs of tokens of whole characters from `start` on: where each begins and
    ends.
    """
    for is_whole, run in groupby(
        range(start, len(tokens)), key=lambda place: tokens[place][1]
    ):
        places = list(run)
        if is_whole:
            yield places[0], places[-1] + 1


def _explained(answer: httpx.Response) -> str:
    problem = f"{answer.status_code}: {answer.text[:200]}"
    if answer.status_code in _NOT_FOUND:
        return (
            f"{problem}. This is no llama-server; only that has /tokenize and "
            "/completion."
        )
    if answer.status_code in _UNAUTHORIZED:
        return f"{problem}. Give the server's key as `api_key`."
    return f"{problem}. Texts too long for the server's context need a larger `-c`."
