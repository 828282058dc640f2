"""Meaning as vectors: a small BERT sentence encoder (all-MiniLM-L6-v2 and its like) in numpy.

A gateway embeds one short query at a time; for that it need not load PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ModelError

if TYPE_CHECKING:
    import numpy as np

    Vectors = np.ndarray[tuple[int, int], np.dtype[np.float32]]

MAX_TOKENS = 256
"""Longer texts are cut: these models were trained on sentences and short paragraphs."""
KEPT = 1 << 14
"""Texts whose vectors are kept, about 25 MB: when a server's tools change, most stay."""


class SentenceEncoder:
    """Texts to unit vectors, so that a dot product is their cosine."""

    def __init__(self, folder: Path) -> None:
        """Load a model folder.

        Raises:
            ModelError: files are missing or unreadable, or it is no BERT pooled by the mean.
        """
        self._row = lru_cache(maxsize=KEPT)(self._embed)
        try:
            self._load(folder)
            self(["A trial: weights that lack or do not fit show here."])
        except ModelError:
            raise
        except Exception as error:  # tokenizers raises nothing narrower on a broken file
            raise ModelError(f"{folder}: no sentence encoder there ({error!r})") from error

    def _load(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        pooling = json.loads((folder / "1_Pooling/config.json").read_text(encoding="utf-8"))
        kind = config.get("model_type"), config.get("hidden_act")
        if kind != ("bert", "gelu") or not pooling.get("pooling_mode_mean_tokens"):
            raise ModelError(f"{folder}: needs a BERT with gelu, pooled by the mean; is {kind}")
        self._heads = int(config["num_attention_heads"])
        self._layers = int(config["num_hidden_layers"])
        self._epsilon = float(config["layer_norm_eps"])
        # Linear layers are kept as they multiply: inputs in rows, in one piece of memory.
        self._weights: dict[str, Any] = {
            name: weight.T.copy() if name.endswith(_LINEAR) else weight
            for name, weight in load_file(folder / "model.safetensors").items()
        }
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(min(MAX_TOKENS, config["max_position_embeddings"]))

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """One row a text."""
        import numpy as np

        rows = [self._row(text) for text in texts]
        return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)

    def _embed(self, text: str) -> Any:
        import numpy as np

        ids = self._tokenizer.encode(text).ids
        embeddings = "embeddings.{}_embeddings.weight".format
        states = self._weights[embeddings("word")][ids]
        states = states + self._weights[embeddings("position")][: len(ids)]
        states = self._norm(states + self._weights[embeddings("token_type")][0], "embeddings")
        for layer in range(self._layers):
            states = self._layer(states, f"encoder.layer.{layer}")
        pooled = states.mean(axis=0)
        return pooled / max(float(np.linalg.norm(pooled)), 1e-12)

    def _layer(self, states: Any, name: str) -> Any:
        import numpy as np

        query, key, value = (
            self._linear(states, f"{name}.attention.self.{part}")
            .reshape(len(states), self._heads, -1)
            .swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(np.float32(query.shape[-1]))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = (shares @ value).swapaxes(0, 1).reshape(states.shape)
        out = f"{name}.attention.output"
        states = self._norm(states + self._linear(seen, f"{out}.dense"), out)
        inner = _gelu(self._linear(states, f"{name}.intermediate.dense"))
        return self._norm(states + self._linear(inner, f"{name}.output.dense"), f"{name}.output")

    def _linear(self, states: Any, name: str) -> Any:
        return states @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]

    def _norm(self, states: Any, name: str) -> Any:
        import numpy as np

        centred = states - states.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        scale, shift = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return centred / spread * scale + shift


_LINEAR = ("query.weight", "key.weight", "value.weight", "dense.weight")


def _gelu(values: Any) -> Any:
    """GELU by its tanh form, within 5e-4 of the exact one: numpy has no erf."""
    import numpy as np

    inner = np.float32(np.sqrt(2 / np.pi)) * (values + np.float32(0.044715) * values**3)
    return np.float32(0.5) * values * (1 + np.tanh(inner))
