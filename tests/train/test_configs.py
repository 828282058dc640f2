"""Every shipped training config and launcher, as far as it can be checked without its hardware."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from breadcrumbs.config import load
from breadcrumbs.errors import ConfigError
from breadcrumbs.models import SMALL
from breadcrumbs.train.config import (
    AdapterConfig,
    DpoConfig,
    GrpoConfig,
    KtoConfig,
    RunConfig,
    TrainConfig,
)

ROOT = Path(__file__).resolve().parents[2]
TRAIN = sorted(path.name for path in (ROOT / "configs" / "train").glob("*.yaml"))
STAGES: dict[str, Any] = {
    "sft": TrainConfig,
    "dpo": DpoConfig,
    "kto": KtoConfig,
    "grpo": GrpoConfig,
}
ACCELERATE = sorted(path.name for path in (ROOT / "configs" / "accelerate").glob("*.yaml"))


def read(name: str) -> RunConfig:
    path = ROOT / "configs" / "train" / name
    schema = STAGES[yaml.safe_load(path.read_text()).get("stage", "sft")]
    loaded: RunConfig = load(path, schema)
    return loaded


@pytest.mark.parametrize("name", TRAIN)
def test_every_training_config_loads_and_names_its_command(name: str) -> None:
    config = read(name)
    head = (ROOT / "configs" / "train" / name).read_text().splitlines()[0]
    part = "# Part of configs/generate/"  # of a config whose command runs this one too
    assert head.endswith(f"configs/train/{name}") or head.startswith(part)
    if config.model != SMALL:
        assert config.max_tokens  # nothing is cut in silence, and no row surprises the memory
        assert config.gradient_checkpointing
        assert "ot run on such" in (ROOT / "configs" / "train" / name).read_text()


def test_the_hardware_asked_for_is_there() -> None:
    wanted = {"gpu24_qlora", "gpu80_bf16", "gpu8_fsdp2", "multinode_fsdp2", "demo"}
    assert wanted <= {Path(name).stem for name in TRAIN}
    assert read("gpu24_qlora.yaml").quantization == "nf4"


def read_attributes(folder: Path) -> set[str]:
    """Names read as `config.NAME` or `adapter.NAME` anywhere in the training code."""
    return {
        node.attr
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("config", "adapter")
    }


@pytest.mark.parametrize("schema", [*STAGES.values(), AdapterConfig])
def test_every_setting_is_read(schema: Any) -> None:
    read_somewhere = read_attributes(ROOT / "train")
    names = {field.name for field in dataclasses.fields(schema)}
    assert names <= read_somewhere
    assert "a_setting_of_nobody" not in read_somewhere


def launch_arguments(words: list[str]) -> argparse.Namespace:
    """What `accelerate launch` makes of these words and the config file they name."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    arguments = launch_command_parser().parse_args(words)
    return _validate_launch_command(arguments)[0]


@pytest.mark.parametrize("name", ACCELERATE)
def test_accelerate_reads_its_config_and_knows_every_key(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    path = ROOT / "configs" / "accelerate" / name
    config = load_config_from_file(str(path))
    known = set(vars(launch_command_parser().parse_args(["x"])))
    assert set(config.fsdp_config or {}) <= known
    words = ["--config_file", str(path), "--module", "breadcrumbs", "train", "sft"]
    arguments = launch_arguments(words)
    assert arguments.num_processes == config.num_processes
    assert arguments.module
    assert (arguments.training_script, arguments.training_script_args) == (
        "breadcrumbs",
        ["train", "sft"],
    )
    broken = tmp_path / "broken.yaml"
    broken.write_text(path.read_text() + "\nnum_procesess: 4\n")
    with pytest.raises(ValueError, match="unknown keys"):
        load_config_from_file(str(broken))


@pytest.mark.parametrize("name", [name for name in ACCELERATE if "fsdp2" in name])
def test_an_fsdp_config_means_version_two_and_whole_checkpoints(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the environment, as the launcher hands it to each process."""
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env

    path = ROOT / "configs" / "accelerate" / name
    assert launch_arguments(["--config_file", str(path), "x"]).fsdp_version == 2
    words = ["--config_file", str(path), "--main_process_port", "29712", "x"]
    if "multinode" in name:
        words = ["--machine_rank", "1", "--main_process_ip", "10.0.0.1", *words]
    for key, value in prepare_multi_gpu_env(launch_arguments(words)).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("FSDP_SYNC_MODULE_STATES", "false")  # version one's; wants a GPU at once
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert "FULL_STATE_DICT" in str(plugin.state_dict_type)
    assert plugin.cpu_ram_efficient_loading


def shell_scripts() -> list[Path]:
    return sorted(
        path
        for path in (ROOT / "scripts" / "launch").iterdir()
        if path.suffix in (".sh", ".sbatch")
    )


@pytest.mark.parametrize("path", shell_scripts(), ids=lambda path: path.name)
def test_a_launcher_is_valid_shell_and_says_how_it_is_used(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    said = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert said.stderr.startswith("usage: ")


def test_launchers_and_configs_name_files_that_exist() -> None:
    files = [*(ROOT / "scripts" / "launch").iterdir()]
    files += [*(ROOT / "configs" / "train").iterdir(), *(ROOT / "configs" / "accelerate").iterdir()]
    named = {
        found
        for path in files
        for found in re.findall(r"(?:configs|scripts)/[\w./-]+\.\w+", path.read_text())
    }
    assert "configs/accelerate/fsdp2_8gpu.yaml" in named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_the_slurm_launcher_starts_one_launcher_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for `srun`, `scontrol` and `accelerate` that say what they were given."""
    monkeypatch.chdir(ROOT)
    for name, body in {
        "scontrol": "echo node-a; echo node-b",
        "srun": 'shift; SLURM_NODEID=1 exec "$@"',
        "accelerate": 'printf "%s\\n" "$@"',
    }.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    job = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "SLURM_JOB_NODELIST": "node-[a-b]",
        "SLURM_JOB_ID": "41",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "8",
    }
    script = ROOT / "scripts" / "launch" / "slurm.sbatch"
    rest = ["sft", "configs/train/multinode_fsdp2.yaml", "--set", "out=a b"]
    said = subprocess.run(
        ["bash", str(script), *rest], env=job, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said[0] == "launch"
    arguments = launch_arguments(said[1:])
    assert (arguments.num_machines, arguments.num_processes) == (2, 16)
    assert (arguments.machine_rank, arguments.main_process_ip) == (1, "node-a")
    assert said[-5:] == ["sft", "--config", rest[1], "--set", "out=a b"]


def test_the_kubernetes_job_runs_the_launcher() -> None:
    job = yaml.safe_load((ROOT / "scripts" / "launch" / "kubernetes.yaml").read_text())
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["bash", "scripts/launch/accelerate.sh"]
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in job["spec"]["template"]["spec"]["volumes"]}


def test_several_gpus_and_one_process_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from breadcrumbs.train.fitting import check_devices

    check_devices()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(ConfigError, match="4 GPUs and one process: start it with"):
        check_devices()
    monkeypatch.setenv("LOCAL_RANK", "0")
    check_devices()


def test_four_bits_without_their_library_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from breadcrumbs.train import fitting

    monkeypatch.setattr(fitting.importlib.util, "find_spec", lambda name: None)
    config = TrainConfig(data="d", out="o", steps=1, quantization="nf4")
    with pytest.raises(ConfigError, match=r"pip install 'breadcrumbs\[quantize\]'"):
        fitting.load_base(tmp_path, config)
