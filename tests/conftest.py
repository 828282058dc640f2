"""What every test shares: hypothesis without time limits, a tokenizer and a model made here."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Time limits on single examples fail on a busy machine, which says nothing about the code.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")


def build_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """Byte-level BPE with ChatML markers, trained on `texts`; it has no template of its own."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )


def build_model(tokenizer: Any, folder: Path, dtype: str) -> Path:
    """A random Llama of two layers with its tokenizer, saved as a local model folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.2,  # else the frozen head could not say anything with certainty
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def small_config() -> Any:
    """A config for a data set of three small catalogs, made in a second or two."""
    from breadcrumbs.data_gen.config import Amount, GenerateConfig

    small = Path(__file__).parent / "data_gen" / "small"
    return GenerateConfig(
        catalogs=tuple(str(small / name) for name in ("calendar.yaml", "bank.yaml", "travel.yaml")),
        hints=tuple(str(path) for path in sorted(small.glob("hints_*.yaml"))),
        held_out_tools=("create_calendar_event",),
        held_out_domain="travel",
        train=Amount(pairs=8, declines=2),
        eval_tools=Amount(pairs=2),
        eval_domain=Amount(pairs=2),
    )


@pytest.fixture(name="build_tokenizer", scope="session")
def build_tokenizer_fixture() -> Any:
    return build_tokenizer


@pytest.fixture(name="build_model", scope="session")
def build_model_fixture() -> Any:
    return build_model


@pytest.fixture(scope="session")
def chatml_tokenizer() -> Any:
    text = "open a ticket titled lift is stuck with high priority assistant user system tool"
    return build_tokenizer([text, "\n\n\n"], 600)


@pytest.fixture(scope="session")
def tiny_model_folder(chatml_tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random Llama in float32."""
    return build_model(chatml_tokenizer, tmp_path_factory.mktemp("model"), "float32")


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """An ASGI app on this machine's loopback, in a thread of its own; yields its address."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    settings = uvicorn.Config(
        app, log_level="critical", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(name="serving", scope="session")
def serving_fixture() -> Any:
    return serving
