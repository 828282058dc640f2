"""Search by meaning: the encoder's arithmetic, and the fusion of two rankings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.gateway import Gateway, Principal, simulated_gateway
from breadcrumbs.gateway.search import ToolIndex, _Meaning, index_of
from breadcrumbs.gateway.sentence_encoder import SentenceEncoder
from breadcrumbs.live_gateway import open_gateway

MEANINGS = {"refund": 0, "money": 0, "lamp": 1, "light": 1, "dim": 1, "room": 2, "hall": 2}
WIDTH, HEADS, WORDS = 8, 2, ("[CLS]", "[SEP]", "[UNK]", "refund", "lamp", "room")


def embed(texts: Sequence[str]) -> Any:
    """Texts that share a meaning point the same way; what means nothing points its own."""
    rows = np.zeros((len(texts), 4), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().replace("_", " ").replace(".", " ").split():
            row[MEANINGS.get(word, 3)] += 1 if word in MEANINGS else 0.01
        row /= np.linalg.norm(row)
    return rows


def tools(*names: str, allow: dict[str, str] | None = None) -> Catalog:
    roles = allow or {}
    return Catalog(
        {
            name: ToolSpec(
                name, "", {}, Risk.READ, "made", allow=(roles[name],) if name in roles else ()
            )
            for name in names
        }
    )


def names(index: ToolIndex, query: str, *rest: Any) -> list[str]:
    return [spec.name for spec in index.search(query, 5, *rest)]


def test_no_word_in_common_is_found_by_meaning_only() -> None:
    catalog = tools("issue_refund", "dim_lamp", "book_room")
    assert names(ToolIndex(catalog), "money back") == []
    assert names(ToolIndex(catalog, embed), "money back") == ["issue_refund"]


def test_equal_meanings_are_told_apart_by_words() -> None:
    catalog = tools("adjust_light", "switch_lamp")
    assert names(ToolIndex(catalog, embed), "lamp")[0] == "switch_lamp"
    assert set(names(ToolIndex(catalog, embed), "lamp")) == {"adjust_light", "switch_lamp"}


def test_a_tool_is_near_to_the_requests_it_fulfils() -> None:
    def made(*requests: str) -> ToolSpec:
        return ToolSpec("x", "", {}, Risk.READ, "made", requests=requests)

    far = made()
    once, twice = made("money"), made("money", "lamp", "money back")
    mixed = made("money", "lamp")
    near = _Meaning([far, once, twice, mixed], embed).near("refund")
    views = _Meaning([far], embed).near("refund")[0]
    assert near[0] == pytest.approx(views)  # without any, what it says of itself alone
    full = float(embed(["money"])[0] @ embed(["refund"])[0])
    back = float(embed(["money back"])[0] @ embed(["refund"])[0])
    lamp = float(embed(["lamp"])[0] @ embed(["refund"])[0])
    wanted = [full, (full + back) / 2, (full + lamp) / 2]  # the two nearest of each
    assert near[1:] == pytest.approx([(views + value) / 2 for value in wanted])


def test_a_request_that_was_foreseen_is_found() -> None:
    plain = ToolSpec("x_one", "", {}, Risk.READ, "made")
    told = ToolSpec("x_two", "", {}, Risk.READ, "made", requests=("dim the light",))
    catalog = Catalog({spec.name: spec for spec in (plain, told)})
    assert names(ToolIndex(catalog, embed), "lamp") == ["x_two"]
    assert names(ToolIndex(catalog), "light") == ["x_two"]


@pytest.mark.parametrize("query", ["zebra", "", "!!!", "the of"])
def test_nothing_fits(query: str) -> None:
    assert (
        names(
            ToolIndex(tools("issue_refund", "dim_lamp"), lambda texts: embed(texts) * [1, 1, 1, 0]),
            query,
        )
        == []
    )


@pytest.mark.parametrize("query", ["room", "hall", "book a room with light"])
def test_hidden_and_closed_tools_take_no_rank(query: str) -> None:
    """With a tool hidden, or closed, the answer is the one of a catalog that never had it."""
    every = ("book_hall", "book_room", "list_room", "room_light")
    index = ToolIndex(tools(*every, allow={"book_room": "staff"}), embed)
    without = ToolIndex(tools(*(name for name in every if name != "book_room")), embed)
    assert names(index, query, ["staff"], {"book_room"}) == names(without, query)
    assert names(index, query) == names(without, query)

    def fused(among: ToolIndex, roles: Sequence[str]) -> list[tuple[float, str]]:
        hits = among._fused(query, lambda hit: among._specs[hit[1]].open_to(roles))
        return [(score, among._specs[place].name) for score, place in hits]

    never = fused(without, ())
    assert fused(index, ()) == never
    late = [hit for hit in fused(index, ["staff"]) if hit[1] != "book_room"]
    assert late != never  # negative control: ranked first and hidden then, it leaves a trace


def test_indexes_are_kept_by_catalog_and_encoder() -> None:
    catalog = tools("issue_refund")
    assert index_of(catalog) is index_of(catalog)
    assert index_of(catalog, embed) is index_of(catalog, embed)
    assert index_of(catalog, embed) is not index_of(catalog)
    assert names(ToolIndex(Catalog({}), embed), "refund") == []


def test_a_gateway_takes_an_encoder() -> None:
    plain = simulated_gateway(tools("issue_refund"), seed=0).gateway
    by_meaning = Gateway(
        plain.catalog, plain.executor, plain.journal, clock=plain.clock, ids=plain.ids, embed=embed
    )
    assert plain.search("money back", 5, Principal()) == []
    assert [spec.name for spec in by_meaning.search("money back", 5, Principal())] == [
        "issue_refund"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of one layer with weights drawn here."""
    rng = np.random.default_rng(0)
    shapes = {"word": (len(WORDS), WIDTH), "position": (16, WIDTH), "token_type": (2, WIDTH)}
    weights = {f"embeddings.{name}_embeddings.weight": shape for name, shape in shapes.items()}
    layer = "encoder.layer.0."
    for name in (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
    ):
        weights |= {f"{layer}{name}.weight": (WIDTH, WIDTH), f"{layer}{name}.bias": (WIDTH,)}
    weights |= {
        f"{layer}intermediate.dense.weight": (12, WIDTH),
        f"{layer}intermediate.dense.bias": (12,),
    }
    weights |= {f"{layer}output.dense.weight": (WIDTH, 12), f"{layer}output.dense.bias": (WIDTH,)}
    for name in ("embeddings", f"{layer}attention.output", f"{layer}output"):
        weights |= {f"{name}.LayerNorm.weight": (WIDTH,), f"{name}.LayerNorm.bias": (WIDTH,)}
    save_file(
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()},
        tmp_path / "model.safetensors",
    )
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 16,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}')
    tokenizer = Tokenizer(
        models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def by_transformers_definition(folder: Path, ids: Sequence[int]) -> Any:
    """The encoder's definition, one position and one head at a time, in double precision."""
    from math import erf, exp, sqrt

    from safetensors.numpy import load_file

    w = {
        name: value.astype(float) for name, value in load_file(folder / "model.safetensors").items()
    }

    def linear(x: Any, name: str) -> Any:
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        return (x - x.mean()) / sqrt(x.var() + 1e-12) * w[f"{name}.LayerNorm.weight"] + w[
            f"{name}.LayerNorm.bias"
        ]

    def table(name: str, row: int) -> Any:
        return w[f"embeddings.{name}_embeddings.weight"][row]

    states = [
        norm(table("word", word) + table("position", place) + table("token_type", 0), "embeddings")
        for place, word in enumerate(ids)
    ]
    layer, size = "encoder.layer.0", WIDTH // HEADS
    outputs = []
    for state in states:
        seen = []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            query = linear(state, f"{layer}.attention.self.query")[part]
            weights = [
                exp(query @ linear(other, f"{layer}.attention.self.key")[part] / sqrt(size))
                for other in states
            ]
            values = [linear(other, f"{layer}.attention.self.value")[part] for other in states]
            seen.append(
                sum(weight * value for weight, value in zip(weights, values, strict=True))
                / sum(weights)
            )
        out = norm(
            state + linear(np.concatenate(seen), f"{layer}.attention.output.dense"),
            f"{layer}.attention.output",
        )
        inner = np.array(
            [x / 2 * (1 + erf(x / sqrt(2))) for x in linear(out, f"{layer}.intermediate.dense")]
        )
        outputs.append(norm(out + linear(inner, f"{layer}.output.dense"), f"{layer}.output"))
    pooled = np.mean(outputs, axis=0)
    return pooled / np.linalg.norm(pooled)


@pytest.mark.parametrize(
    ("text", "ids"),
    [("refund", [0, 3, 1]), ("lamp room zebra lamp", [0, 4, 5, 2, 4, 1]), ("", [0, 1])],
)
def test_the_encoder_computes_its_definition(folder: Path, text: str, ids: list[int]) -> None:
    found = SentenceEncoder(folder)([text, "room"])
    assert found.shape == (2, WIDTH)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert found[0] == pytest.approx(by_transformers_definition(folder, ids), abs=2e-3)
    assert (
        found[0] != pytest.approx(by_transformers_definition(folder, ids[::-1]), abs=2e-2)
        or text == ""
    )


def test_a_gateway_that_people_use_takes_the_folder(folder: Path) -> None:
    catalog = tools("issue_refund")
    assert open_gateway(catalog).search("zebra", 5, Principal()) == []
    found = open_gateway(catalog, encoder=folder).search("zebra", 5, Principal())
    assert [spec.name for spec in found] == ["issue_refund"]  # this model knows no word of either
    with pytest.raises(ModelError, match="no sentence encoder there"):
        open_gateway(catalog, encoder=folder / "1_Pooling")


def test_a_text_is_embedded_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SentenceEncoder(folder)
    first = encoder(["lamp", "room"])
    monkeypatch.setattr(encoder, "_layer", None)  # computing anything now would fail
    assert np.array_equal(encoder(["room", "lamp"]), first[::-1])
    with pytest.raises(TypeError):
        encoder(["refund"])


def test_a_long_text_is_cut_to_what_the_model_takes(folder: Path) -> None:
    encoder = SentenceEncoder(folder)
    assert encoder(["lamp " * 500]) == pytest.approx(encoder(["lamp " * 14]))
    assert encoder([]).shape == (0, 0)


def test_weights_that_lack_are_refused(folder: Path) -> None:
    save_file({"other": np.zeros(3, dtype=np.float32)}, folder / "model.safetensors")
    with pytest.raises(ModelError, match="word_embeddings"):
        SentenceEncoder(folder)


@pytest.mark.parametrize(
    "spoil", ["config.json", "model.safetensors", "tokenizer.json", "1_Pooling/config.json"]
)
def test_a_folder_that_is_no_encoder_is_refused(folder: Path, spoil: str) -> None:
    (folder / spoil).write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match="no sentence encoder there"):
        SentenceEncoder(folder)


def test_another_kind_of_model_is_refused(folder: Path) -> None:
    (folder / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true}')
    with pytest.raises(ModelError, match="pooled by the mean"):
        SentenceEncoder(folder)
