"""A server that has the adapter passes; one with the base, or another template, is refused."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from breadcrumbs.cli import main
from breadcrumbs.errors import ModelError
from breadcrumbs.local_model import LocalModel
from breadcrumbs.openai_wire import ChatRequest, messages_in
from breadcrumbs.train.endpoint_check import check_endpoint
from breadcrumbs.train.golden import last_logits


@dataclass
class Server:
    """What vLLM answers on the two routes, and how it may be another than it should be."""

    local: LocalModel
    base: bool = False
    loud: float = 1.0
    tokenizes: bool = True
    template_ids: tuple[int, ...] = ()
    logprobs: bool = True
    names: str = "number"
    status: int = 200

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.post("/tokenize")
        async def tokenize(request: Request) -> Any:
            if not self.tokenizes:
                return JSONResponse({"detail": "Not Found"}, 404)
            body = json.loads(await request.body())
            messages = messages_in(ChatRequest(model="m", messages=body["messages"]))
            ids = self.local.renderer.prompt_ids(messages, body["tools"])
            return {"tokens": [*self.template_ids, *ids]}

        @app.post("/v1/completions")
        async def complete(request: Request) -> Any:
            if self.status != 200:
                return JSONResponse({"error": {"message": "no\x1b[31m such model"}}, self.status)
            body = json.loads(await request.body())
            assert (body["model"], body["max_tokens"], body["temperature"]) == ("ag", 1, 0)
            with self.local.base() if self.base else nullcontext():
                logits = last_logits(self.local.model, body["prompt"], 1)[0]
            shares = (logits.float() * self.loud).log_softmax(-1)
            token = int(shares.argmax())
            decoded = self.local.renderer.tokenizer.decode([token])
            name = f"token_id:{token}" if self.names == "number" else decoded
            found = {"tokens": [name], "token_logprobs": [float(shares[token])]}
            return {"choices": [{"text": decoded, "logprobs": found if self.logprobs else None}]}

        return app


@pytest.fixture(scope="module")
def local(published: Path, model_folder: Path) -> LocalModel:
    return LocalModel.load(str(model_folder), adapter=published, device="cpu")


def check(serving: Any, server: Server, folder: Path) -> list[str]:
    with serving(server.app()) as url:
        return asyncio.run(check_endpoint(f"{url}/v1", "ag", folder))


def fault(serving: Any, server: Server, folder: Path) -> str:
    with pytest.raises(ModelError) as raised:
        check(serving, server, folder)
    assert "\n" not in str(raised.value)
    assert "\x1b" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("names", ["number", "text"])
def test_G75_a_server_with_the_adapter_passes(
    names: str, serving: Any, local: LocalModel, published: Path
) -> None:
    lines = check(serving, Server(local, names=names), published)
    assert [line.split(":")[0] for line in lines] == ["files", "golden", "canary"]
    assert "token for token" in lines[1]


def test_a_server_that_shows_no_template_is_said_to_be_unseen(
    serving: Any, local: LocalModel, published: Path
) -> None:
    lines = check(serving, Server(local, tokenizes=False), published)
    assert "cannot be seen" in lines[1]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base": True}, "the adapter is not in use|these are other weights"),
        ({"loud": 20.0}, "these are other weights"),
        ({"template_ids": (5,)}, "golden conversation 0: .* builds another prompt"),
        ({"logprobs": False}, "leave --adapter out"),
        ({"status": 404}, "leave --adapter out"),
        ({"status": 500}, "answered 500"),
    ],
)
def test_G75_another_server_is_refused(
    change: dict[str, Any], said: str, serving: Any, local: LocalModel, published: Path
) -> None:
    assert re.search(said, fault(serving, Server(local, **change), published))


def test_a_copy_that_was_changed_is_told_before_the_server_is_asked(
    published: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "adapter"))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(ModelError, match="not the file that was published"):
        asyncio.run(check_endpoint("http://127.0.0.1:9/v1", "ag", folder))


def test_serve_asks_the_server_first(
    serving: Any,
    local: LocalModel,
    published: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from breadcrumbs import serve

    begun: list[serve.ServeOptions] = []
    monkeypatch.setattr(serve, "serve", begun.append)
    words = ["serve", "--model", "ag", "--adapter", str(published), "--endpoint"]
    with serving(Server(local).app()) as url:
        main([*words, f"{url}/v1"])
    assert "canary: " in capsys.readouterr().err
    assert len(begun) == 1
    with serving(Server(local, base=True).app()) as url, pytest.raises(SystemExit) as stopped:
        main([*words, f"{url}/v1"])
    assert stopped.value.code == 2
    assert len(begun) == 1
