"""A small OpenAI-compatible chat server: structured answers by the schema that is asked for."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = dict[str, Any] | Callable[[str], dict[str, Any]]


@contextmanager
def chat_server(seen: list[Any] | None = None, /, **answers: Answer) -> Iterator[str]:
    """Its base URL while it runs; `answers` by schema name, or made from the last message.

    The messages of each request are added to `seen`.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if seen is not None:
                seen.append(asked["messages"])
            body = json.dumps(_completion(asked, answers)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _completion(asked: dict[str, Any], answers: dict[str, Answer]) -> dict[str, Any]:
    wanted = asked.get("response_format", {}).get("json_schema", {}).get("name", "")
    answer = answers.get(wanted, {})
    content = answer(asked["messages"][-1]["content"]) if callable(answer) else answer
    message = {"role": "assistant", "content": json.dumps(content)}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
