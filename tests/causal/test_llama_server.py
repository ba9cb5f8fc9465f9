"""A llama-server that scores continuations, and servers that cannot."""

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from langmem_graph.causal.local_models import LlamaServer, shared_start
from langmem_graph.errors import CausalModelError, InvalidInputError


@pytest.mark.parametrize(
    ("prefix", "whole", "start"),
    [([1, 2], [1, 2, 3], 2), ([1, 2], [1, 9, 3], 1), ([], [1], 0), ([1, 2], [1], 1)],
)
def test_where_the_continuation_begins(
    prefix: list[int], whole: list[int], start: int
) -> None:
    assert shared_start(prefix, whole) == start


Answer = Callable[[httpx.Request], httpx.Response]


def served(answer: Answer, **options: Any) -> LlamaServer:
    """A client of a server that answers so."""
    lm = LlamaServer("http://127.0.0.1:1/v1/", **options)
    headers = lm._client.headers
    lm.close()
    lm._client = httpx.Client(transport=httpx.MockTransport(answer), headers=headers)
    return lm


def as_it_should(request: httpx.Request) -> httpx.Response:
    """One token per word; the log-probability of token n is -n."""
    body = json.loads(request.content)
    if request.url.path == "/tokenize":
        words = body["content"].split()
        told = [{"id": len(w), "piece": [226] if "?" in w else w} for w in words]
        return httpx.Response(200, json={"tokens": told})
    forced = [int(part.strip("<[]>")) for part in body["grammar"].split()[2:]]
    told = [{"id": token, "logprob": -token} for token in forced]
    return httpx.Response(200, json={"completion_probabilities": told})


def test_the_mean_is_over_the_continuation_alone() -> None:
    with served(as_it_should) as lm:
        assert lm.nll("aaaaaaa aaaaaaa", " a bb cccccc") == (1 + 2 + 6) / 3


def test_parts_of_characters_are_read_but_not_counted() -> None:
    prompts: list[list[int]] = []

    def noting(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/completion":
            prompts.append(json.loads(request.content)["prompt"])
        return as_it_should(request)

    with served(noting) as lm:
        assert lm.nll("aaaa", " b ?? ??? cc ddd") == (1 + 2 + 3) / 3
        assert prompts == [[4], [4, 1, 2, 3]]
        with pytest.raises(CausalModelError, match="knows the language"):
            lm.nll("aaaa", " ?? ???")


def test_the_key_is_sent() -> None:
    def locked(request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != "Bearer open":
            return httpx.Response(401, text="no")
        return as_it_should(request)

    with served(locked, api_key="open") as lm:
        assert lm.nll("a", " b") == 1
    with served(locked) as lm, pytest.raises(CausalModelError, match="`api_key`"):
        lm.nll("a", " b")


def _forgetful(request: httpx.Request) -> httpx.Response:
    right = as_it_should(request).json()
    if "completion_probabilities" in right:
        right["completion_probabilities"][0]["id"] = 99
    return httpx.Response(200, json=right)


def _telling(tokens: Any) -> Answer:
    """Answers everything with these tokens."""
    return lambda _: httpx.Response(200, text=json.dumps({"tokens": tokens}))


def _without_probabilities(request: httpx.Request) -> httpx.Response:
    right = as_it_should(request).json()
    for token in right.get("completion_probabilities", []):
        token["logprob"] = None
    return httpx.Response(200, json=right)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: httpx.Response(404, text="nothing here"), "no llama-server"),
        (lambda _: httpx.Response(500, text="too long"), "500: too long.*larger `-c`"),
        (lambda _: httpx.Response(200, text="<html>"), "answered without 'tokens'"),
        (lambda _: httpx.Response(200, json=[]), "answered without 'tokens'"),
        (lambda _: httpx.Response(200, text="[" * 100_000), "without 'tokens'"),
        (_telling("abc"), "answered without 'tokens'"),
        (_telling([1, 2, 3]), "answered without 'tokens'"),
        (_telling([{"id": 1}]), "answered without 'tokens'"),
        (_telling([{"id": "x", "piece": "a"}]), "answered without 'tokens'"),
        (_telling([{"id": math.inf, "piece": "a"}]), "answered without 'tokens'"),
        (_without_probabilities, "answered without 'completion_probabilities'"),
        (
            lambda _: httpx.Response(200, json={"tokens": [{"id": 7, "piece": "x"}]}),
            "no whole",
        ),
        (_forgetful, "Update llama.cpp"),
    ],
)
def test_a_server_that_cannot_serve(answer: Answer, said: str) -> None:
    with served(answer) as lm, pytest.raises(CausalModelError, match=said):
        lm.nll("a b", " c d")


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")]
)
def test_a_server_that_does_not_answer(error: Exception) -> None:
    def raising(_: httpx.Request) -> httpx.Response:
        raise error

    with (
        served(raising) as lm,
        pytest.raises(CausalModelError, match=r"No llama-server.*verifier"),
    ):
        lm.nll("a", " b")


def test_a_closed_client_says_so() -> None:
    lm = served(as_it_should)
    lm.close()
    with pytest.raises(CausalModelError, match="was closed"):
        lm.nll("a", " b")


def test_a_password_in_the_url_is_sent_and_not_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[httpx.Request] = []

    def noting(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return as_it_should(request)

    transport = httpx.MockTransport(noting)
    made = httpx.Client
    monkeypatch.setattr(
        httpx, "Client", lambda **options: made(transport=transport, **options)
    )
    with (
        caplog.at_level("DEBUG"),
        LlamaServer("http://ana:s3cret%21@127.0.0.1:1/v1") as lm,
    ):
        assert lm.nll("aaaaaaa aaaaaaa", " a bb cccccc") == (1 + 2 + 6) / 3
    login = base64.b64encode(b"ana:s3cret!").decode()
    assert sent[0].headers["authorization"] == f"Basic {login}"
    assert "tokenize" in caplog.text
    assert "s3cret" not in caplog.text


def test_a_url_with_a_query_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="without") as refused:
        LlamaServer("http://127.0.0.1:1/v1?token=s3cret")
    assert "s3cret" not in str(refused.value)
