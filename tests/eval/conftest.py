"""One small catalog with hints, and scenarios written by hand, whose right scores are known."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.hints import Composed, ToolHint, load_hints
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.eval.decision import decision_cases
from breadcrumbs.eval.metrics import Case
from breadcrumbs.eval.outside_config import OutsideConfig
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings

CATALOG = """
version: 1
domain: desk
collections:
  meetings:
    key: meeting_id
    prefix: mtg
    records: [{meeting_id: mtg_1, title: Standup, start: "2026-03-04T09:00"}]
tools:
  - name: plan_meeting
    description: Put a meeting on the plan.
    risk: write
    keywords: [appointment]
    effect: {op: create, collection: meetings}
    parameters:
      title: {type: string}
      start: {type: string, format: date-time}
      minutes: {type: integer, minimum: 5, default: 30}
      rate: {type: number}
      guests: {type: array, items: {type: string, format: email}}
      private: {type: boolean, default: false}
      note: {type: string}
    required: [title, start]
  - name: cancel_meeting
    description: Take a meeting off the plan.
    risk: destructive
    keywords: [remove]
    effect: {op: delete, collection: meetings, key_argument: meeting_id}
    parameters:
      meeting_id: {type: string}
    required: [meeting_id]
  - name: read_weather
    description: Read the weather report.
    risk: read
    keywords: [forecast]
    effect: {op: list, collection: meetings}
    parameters:
      title: {type: string}
    required: []
"""
HINTS = """
version: 1
domain: desk
tools:
  plan_meeting:
    search: [plan meeting]
    intents: [plan a meeting]
    arguments:
      title: {label: title, questions: ["What should the title be?"], aliases: [called]}
      start: {label: start, questions: ["When should it start?"], aliases: [begin]}
      minutes: {label: length, aliases: [long]}
      rate: {label: rate}
      guests: {label: guests}
      private: {label: private, clauses: {true: ["and keep it private"], false: ["in the open"]}}
      note: {label: note}
"""
GENERATE = """
version: 1
held_out_domain: clinic
held_out_tools: [scheduled_jobs, book_vehicle]
train: {pairs: 2}
eval_tools: {pairs: 4}
eval_domain: {pairs: 1}
phrasing: plain
"""
TINY = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
EXPERTS = {
    "num_experts": 2,
    "num_local_experts": 2,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
}
LATENT = EXPERTS | {
    "num_key_value_heads": 4,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "n_group": 1,
    "topk_group": 1,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
LINEAR = {
    "num_hidden_layers": 4,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}
WINDOW = {"sliding_window": 16}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "mistral": WINDOW,
    "gemma2": WINDOW | {"attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 8},
    "gemma3_text": WINDOW,
    "gpt_oss": EXPERTS | WINDOW,
    "deepseek_v3": LATENT,
    "deepseek_v32": LATENT | {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8},
    "qwen3_next": LINEAR | EXPERTS | {"shared_expert_intermediate_size": 16},
    "qwen3_5_text": LINEAR,
    "lfm2": {
        "num_hidden_layers": 4,
        "layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
    },
    "phi3": {},
    "olmo3": WINDOW,
    "smollm3": {},
    "granite": {"attention_multiplier": 0.3, "residual_multiplier": 0.3, "logits_scaling": 2.0},
    "glm4_moe": EXPERTS
    | {"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1},
    "ministral3": {},
    "granitemoehybrid": EXPERTS
    | {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "attention", "mamba", "attention"],
        "mamba_n_heads": 8,
        "mamba_d_head": 8,
        "mamba_d_state": 8,
        "mamba_n_groups": 1,
        "shared_intermediate_size": 16,
    },
    "jamba": EXPERTS
    | {
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_d_state": 8,
        "mamba_d_conv": 2,
        "mamba_expand": 2,
        "mamba_dt_rank": 4,
        "use_mamba_kernels": False,
    },
    "gpt_neox": {},
    "cohere2": WINDOW,
    "doge": {},
    "llama4_text": EXPERTS | {"intermediate_size_mlp": 48, "attention_chunk_size": 16},
    "mixtral": EXPERTS,
    "bitnet": {},
    "diffllama": {},
    "bloom": {},
    "mamba2": {"num_heads": 8, "expand": 2, "state_size": 8, "n_groups": 1},
}
"""Tiny models of many kinds: more than a probe can measure, and those that it must refuse."""


@pytest.fixture(scope="session")
def blank() -> Callable[[int], Any]:
    """Makes a model of two heads that does nothing: one-hot embeddings straight to the logits."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(layers: int) -> Any:
        config = LlamaConfig(
            vocab_size=8,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=layers,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=64,
            rms_norm_eps=1e-12,
            rope_parameters={"rope_type": "default", "rope_theta": 1e18},
            bos_token_id=0,
            eos_token_id=0,
        )
        model = LlamaForCausalLM(config).eval()
        for name, weight in model.named_parameters():
            torch.nn.init.ones_(weight) if "norm" in name else torch.nn.init.zeros_(weight)
        with torch.no_grad():
            model.model.embed_tokens.weight.copy_(torch.eye(8))
            model.lm_head.weight.copy_(torch.eye(8))
        return model

    return make


@pytest.fixture(scope="session")
def build_tiny() -> Callable[..., Any]:
    """Random tiny weights of an architecture, the same for every attention implementation."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    def build(name: str, implementation: str = "sdpa", **changes: Any) -> Any:
        torch.manual_seed(0)
        config = AutoConfig.for_model(name, **TINY | ARCHITECTURES[name] | changes)
        return AutoModelForCausalLM.from_config(config, attn_implementation=implementation).eval()

    return build


REQUEST = "Plan a meeting titled 'Budget sync' for 2026-03-09T14:00, 45 minutes, at the rate 25."


@pytest.fixture(scope="session")
def catalog_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalog") / "desk.yaml"
    path.write_text(CATALOG)
    return path


@pytest.fixture(scope="session")
def hints_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hints") / "desk.yaml"
    path.write_text(HINTS)
    return path


@pytest.fixture(scope="session")
def catalog(catalog_file: Path) -> Catalog:
    return load_catalog([catalog_file])


@pytest.fixture(scope="session")
def hints(hints_file: Path) -> dict[str, ToolHint]:
    return load_hints([hints_file])


def scenario(behaviour: str = "dispatch", **changes: Any) -> Scenario:
    """A scenario on `plan_meeting`; `clarify` lacks the start."""
    gold = {"title": "Budget sync", "start": "2026-03-09T14:00", "minutes": 45, "rate": 25}
    request = REQUEST
    missing: tuple[str, ...] = ()
    if behaviour == "clarify":
        gold.pop("start")
        request = request.replace(" for 2026-03-09T14:00", "")
        missing = ("start",)
    hidden = ("plan_meeting", "cancel_meeting") if behaviour == "decline" else ()
    made = Scenario(
        id=f"one-{behaviour}",
        blueprint="one",
        twin="one",
        split="held_out_tools",
        domain="desk",
        tool="plan_meeting",
        behaviour=behaviour,
        request=request,
        system_prompt="Act through the gateway.\nNow: 2026-03-02T09:30.",
        now="2026-03-02T09:30",
        seed=1,
        search_query="plan meeting",
        gold_arguments=gold,
        missing=missing,
        question="When should it start?" if missing else "",
        reply="Sorry, no tool here can do that." if hidden else "",
        hidden_tools=hidden,
    )
    return dataclasses.replace(made, **changes)


def worded() -> Scenario:
    """A scenario whose title the assistant words itself."""
    request = "Plan a meeting to go over the budget and the hiring, for 2026-03-09T14:00."
    title = Composed("Go over the budget and the hiring", ("budget", "hiring"), ("tomorrow",))
    gold = {"title": title.write, "start": "2026-03-09T14:00"}
    return scenario(id="worded", request=request, gold_arguments=gold, composed={"title": title})


@pytest.fixture(scope="session")
def make_scenario() -> Callable[..., Scenario]:
    def make(kind: str = "dispatch", **changes: Any) -> Scenario:
        return worded() if kind == "worded" else scenario(kind, **changes)

    return make


@pytest.fixture(scope="session")
def make_case(catalog: Catalog, hints: dict[str, ToolHint]) -> Callable[..., Case]:
    def make(kind: str, breadcrumbs: bool = True) -> Case:
        made = worded() if kind == "worded" else scenario(kind)
        settings = GatewaySettings(breadcrumbs=breadcrumbs)
        return decision_cases([made], catalog, hints, settings)[0]

    return make


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of a few pairs over the shipped catalogs."""
    from breadcrumbs.config import load
    from breadcrumbs.data_gen.config import GenerateConfig
    from breadcrumbs.data_gen.generate import generate

    folder = tmp_path_factory.mktemp("data")
    (folder / "generate.yaml").write_text(GENERATE)
    out = folder / "data"
    generate(load(folder / "generate.yaml", GenerateConfig), out, lambda *_: None)
    return out


@pytest.fixture
def outside(tmp_path: Path) -> OutsideConfig:
    """A copy of benchmarks of a few items, written by hand in the formats of the real ones."""
    shutil.copytree(Path(__file__).parent / "outside", tmp_path / "copy")
    return OutsideConfig(
        out=tmp_path / "out",
        systems=("oracle", "always_dispatch", "always_ask", "do_nothing"),
        bfcl=tmp_path / "copy" / "bfcl",
        when2call=tmp_path / "copy" / "when2call.jsonl",
    )
