"""The `breadcrumbs` command: reads arguments, calls one function, prints.

Nothing heavy is imported until a command runs. Every error a user can mend is one line on
stderr and exit status 2; `--debug` shows where it came from.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from breadcrumbs import __version__
from breadcrumbs.adapter_cli import adapter
from breadcrumbs.approvals_cli import approvals, journal_option
from breadcrumbs.audit_cli import audit
from breadcrumbs.catalog_cli import catalog, quiet_sdk
from breadcrumbs.config_options import CONFIG, overrides
from breadcrumbs.data_cli import data, print_counts
from breadcrumbs.errors import BreadcrumbsError
from breadcrumbs.eval_cli import compare, episodes, outside
from breadcrumbs.gateway_cli import encoder_option, gateway
from breadcrumbs.probe_cli import probe, steer
from breadcrumbs.radar_cli import radar
from breadcrumbs.stalls_cli import stalls
from breadcrumbs.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from breadcrumbs.data_gen.engines import EngineName
    from breadcrumbs.data_gen.nudged import Nudged
    from breadcrumbs.nudge import NudgeStyle
    from breadcrumbs.progress import Report

T = TypeVar("T")
USAGE_ERROR = 2
INTERRUPTED = 130
FOLDER = click.Path(path_type=Path, file_okay=False)
nudge_option = click.option(
    "--nudge",
    type=click.Choice(["contract", "seed"]),
    default="contract",
    show_default=True,
    help="Wording of the nudge: how calls work, as trained, or the original design's order.",
)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="breadcrumbs")
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and library logs.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Teach a tool-calling model to act once a schema is disclosed, and ask only when it must."""
    context.obj = {"debug": debug}
    logging.basicConfig(level=logging.INFO if debug else logging.ERROR, format="%(message)s")


cli.add_command(catalog)


@cli.command()
@click.option("--config", type=CONFIG, required=True, help="configs/generate/*.yaml")
@click.option("--out", type=FOLDER, required=True, help="Folder for the data set.")
@click.option(
    "--catalog",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Your tools, as for catalog import.",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Processes, or Ray actors. The bytes are the same.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Who does the work: this machine, or a Ray cluster.",
)
@click.option(
    "--nudged",
    type=click.Choice(["remove", "mask", "keep"]),
    help="Stall and nudge of corrected rows: cut out, kept without loss, or kept.",
)
@overrides
def generate(
    config: Path,
    out: Path,
    sources: tuple[str, ...],
    workers: int,
    engine: EngineName,
    nudged: Nudged | None,
    changes: tuple[str, ...],
) -> None:
    """Make a verified data set through the gateway and the loop.

    With --catalog the tools come from files or servers that nobody has written hints for; world,
    values and wording are derived from their schemas. After a failure the same command goes on
    where it ended, also with other --workers.
    """
    from breadcrumbs import config as configs
    from breadcrumbs.data_gen.config import GenerateConfig
    from breadcrumbs.data_gen.generate import generate as run
    from breadcrumbs.progress import live

    quiet_sdk()
    if sources:
        changes = (*changes, f"sources={json.dumps(sources)}")
    if nudged is not None:
        changes = (*changes, f"nudged={nudged}")
    settings = configs.load(config, GenerateConfig, changes)
    console = _console()
    with live("generate", console) as report:
        manifest = run(settings, out, report, workers=workers, engine=engine)
    print_counts(console, manifest, out)


@cli.group()
def train() -> None:
    """Train an adapter, or check that a config can."""


@train.command("sft")
@click.option("--config", type=CONFIG, required=True, help="configs/train/*.yaml")
@overrides
def train_sft_command(config: Path, changes: tuple[str, ...]) -> None:
    """Preflight, then supervised fine-tuning with LoRA."""
    from breadcrumbs.train.config import TrainConfig
    from breadcrumbs.train.sft import train_sft

    _train(config, changes, TrainConfig, train_sft)


@train.command("dpo")
@click.option("--config", type=CONFIG, required=True, help="configs/train/dpo.yaml")
@overrides
def train_dpo_command(config: Path, changes: tuple[str, ...]) -> None:
    """Go on from an adapter with preference pairs: the call over a stall, asking over inventing."""
    from breadcrumbs.train.config import DpoConfig
    from breadcrumbs.train.dpo import train_dpo

    _train(config, changes, DpoConfig, train_dpo)


@train.command("kto")
@click.option("--config", type=CONFIG, required=True, help="configs/train/kto.yaml")
@overrides
def train_kto_command(config: Path, changes: tuple[str, ...]) -> None:
    """Go on from an adapter with right and wrong turns one by one, in both directions."""
    from breadcrumbs.train.config import KtoConfig
    from breadcrumbs.train.kto import train_kto

    _train(config, changes, KtoConfig, train_kto)


@train.command("grpo")
@click.option("--config", type=CONFIG, required=True, help="configs/train/grpo.yaml")
@overrides
def train_grpo_command(config: Path, changes: tuple[str, ...]) -> None:
    """Go on from an adapter by reward: tries at the simulated gateway, scored by its log."""
    from breadcrumbs.train.config import GrpoConfig
    from breadcrumbs.train.grpo import train_grpo

    _train(config, changes, GrpoConfig, train_grpo)


def _train(
    config: Path, changes: tuple[str, ...], schema: type[T], run: Callable[[T, Report], Path]
) -> None:
    from breadcrumbs import config as configs
    from breadcrumbs.progress import is_main_process, live

    settings = configs.load(config, schema, changes)
    console = _console()
    console.quiet = not is_main_process()
    with live("train", console) as report:
        adapter = run(settings, report)
    console.print(f"adapter in {adapter}")


@train.command("check")
@click.option("--config", type=CONFIG, required=True, help="configs/train/*.yaml")
@overrides
def train_check(config: Path, changes: tuple[str, ...]) -> None:
    """Run the preflight alone, over every row, and show one row with its loss marked."""
    from breadcrumbs import config as configs
    from breadcrumbs.train.config import TrainConfig
    from breadcrumbs.train.preflight import check
    from breadcrumbs.train.preview import show

    settings = configs.load(config, TrainConfig, changes)
    show(check(settings), _console())


@train.command("template")
@click.option("--model", default="smollm2-135m", show_default=True)
def train_template(model: str) -> None:
    """Print the model's chat template with generation tags, for other trainers."""
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.training_template import training_template

    click.echo(training_template(load_renderer(resolve_model(model))), nl=False)


@cli.group("eval", invoke_without_command=True)
@click.option("--config", type=CONFIG, help="configs/eval/*.yaml")
@overrides
@click.pass_context
def eval_group(context: click.Context, config: Path | None, changes: tuple[str, ...]) -> None:
    """Score base and adapter on held-out scenarios, beside constant policies."""
    if context.invoked_subcommand is not None:
        return
    if config is None:
        raise click.UsageError("name a config: breadcrumbs eval --config configs/eval/demo.yaml")
    from breadcrumbs import config as configs
    from breadcrumbs.eval.config import EvalConfig
    from breadcrumbs.eval.results import evaluate, table
    from breadcrumbs.progress import live

    settings = configs.load(config, EvalConfig, changes)
    console = _console()
    with live("eval", console) as report:
        results = evaluate(settings, report)
    click.echo(table(results))


@eval_group.command("watch")
@click.option("--config", type=CONFIG, required=True, help="configs/eval/*.yaml")
@click.option("--system", type=click.Choice(["base", "adapter"]), required=True)
@click.option("--out", type=CONFIG, help="Write the turn as JSON.")
@overrides
def eval_watch(config: Path, system: str, out: Path | None, changes: tuple[str, ...]) -> None:
    """Watch one turn live: the schema was just disclosed, what does the model do?"""
    import asyncio

    from breadcrumbs import config as configs
    from breadcrumbs.eval.config import EvalConfig
    from breadcrumbs.eval.watch import watch

    settings = configs.load(config, EvalConfig, changes)
    asyncio.run(watch(settings, system, _console(), out))


eval_group.add_command(episodes)
eval_group.add_command(outside)
eval_group.add_command(compare)


@cli.command()
@click.argument("run", type=FOLDER)
def report(run: Path) -> None:
    """Write one self-contained report.html from what a run folder holds."""
    from breadcrumbs.eval.report import write_report

    _console().print(f"report: {write_report(run)}")


@cli.command()
@click.option("--out", type=FOLDER, default=Path("runs/demo"), show_default=True)
def demo(out: Path) -> None:
    """The whole idea on a small real model: data, training, evaluation, probe, report."""
    from breadcrumbs.demo import run_demo

    run_demo(out, _console())


@cli.command()
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--adapter", type=FOLDER, help="Folder of a trained adapter.")
@click.option("--catalog", "catalogs", type=CONFIG, multiple=True, help="Tool catalog YAML.")
@encoder_option
@nudge_option
def chat(
    model: str,
    adapter: Path | None,
    catalogs: tuple[Path, ...],
    encoder: Path | None,
    nudge: NudgeStyle,
) -> None:
    """Talk to a model in the terminal; the loop and a simulated gateway run."""
    import asyncio

    from breadcrumbs.chat import chat_in_terminal

    asyncio.run(
        chat_in_terminal(model, adapter, list(catalogs) or None, encoder, _console(), nudge)
    )


@cli.command()
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--adapter", type=FOLDER, help="Folder of a trained adapter.")
@click.option("--endpoint", metavar="URL", help="An OpenAI-compatible server that has --model.")
@click.option("--catalog", "catalogs", type=CONFIG, multiple=True, help="Tool catalog YAML.")
@encoder_option
@journal_option
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@nudge_option
def serve(
    model: str,
    adapter: Path | None,
    endpoint: str | None,
    catalogs: tuple[Path, ...],
    encoder: Path | None,
    journal: str,
    host: str,
    port: int,
    nudge: NudgeStyle,
) -> None:
    """Serve the page, OpenAI's routes and runs, the loop bundled. Keys: BREADCRUMBS_API_KEYS.

    An --adapter must prove first that it is whole and in use, as with `adapter check`; with
    --endpoint it is the local copy of what the server has under --model.
    """
    from breadcrumbs.serve import ServeOptions
    from breadcrumbs.serve import serve as run

    if adapter is not None:
        for line in _proved(adapter, model, endpoint):
            click.echo(visible(line), err=True)
    sources = list(catalogs) or None
    run(ServeOptions(model, adapter, endpoint, sources, encoder, journal, host, port, nudge))


def _proved(adapter: Path, model: str, endpoint: str | None) -> Iterable[str]:
    """What shows that this adapter is what will answer."""
    if endpoint is None:
        from breadcrumbs.train.adapter_check import check_adapter

        return check_adapter(adapter, model)
    import asyncio

    from breadcrumbs.train.endpoint_check import check_endpoint

    return asyncio.run(check_endpoint(endpoint, model, adapter))


cli.add_command(adapter)
cli.add_command(approvals)
cli.add_command(gateway)


data.add_command(stalls)
cli.add_command(data)
cli.add_command(audit)
cli.add_command(radar)
cli.add_command(probe)
cli.add_command(steer)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; turns known errors into one line and a status."""
    _quiet_libraries()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        cli.main(args=words, prog_name="breadcrumbs", standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(USAGE_ERROR)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped; run the same command to go on", err=True)
        sys.exit(INTERRUPTED)
    except (BreadcrumbsError, OSError) as error:
        if "--debug" in words:
            raise
        click.echo(f"breadcrumbs: {_one_line(error)}", err=True)
        sys.exit(USAGE_ERROR)


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return visible(f"{where}{error.strerror}")
    return visible(" ".join(str(error).split()))


def _quiet_libraries() -> None:
    """Keep libraries from talking to the network or over our own lines."""
    import os

    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
