"""How often search finds the right tool: recall@1 and @5 with 95 % intervals (Wilson).

    python scripts/search_recall.py [--json] [--encoder FOLDER]
        [--bfcl FOLDER --distractors SOURCE ...]

Own catalog: tests/gateway/search_requests.jsonl, three requests a tool, written after the tools'
names and descriptions only, in other words than theirs, by somebody who had not seen a keyword.

Real catalog: `--bfcl` names a folder of BFCL's multi-turn sets. A user's message is a request
where its recorded answer calls exactly one tool; messages and answers are BFCL's own, read as
they stand, and nothing of them enters the index. The tools are BFCL's, among those of the
`--distractors`, any source that `breadcrumbs catalog import` takes.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REQUESTS = Path("tests/gateway/search_requests.jsonl")
DEPTHS = (1, 5)


@dataclass(frozen=True, slots=True)
class Case:
    """A request and the one tool that fulfils it."""

    request: str
    tool: str


def own_cases(path: Path = REQUESTS) -> list[Case]:
    """The requests for the project's own catalog."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Case(**json.loads(line)) for line in lines]


def bfcl_cases(folder: Path) -> list[Case]:
    """Messages of BFCL's multi-turn base set that are answered by one call."""
    name = "BFCL_v4_multi_turn_base.json"
    answers = {
        item["id"]: item["ground_truth"] for item in _lines(folder / "possible_answer" / name)
    }
    cases = []
    for item in _lines(folder / name):
        for messages, calls in zip(item["question"], answers[item["id"]], strict=True):
            tools = {_called(call) for call in calls}
            if len(messages) == len(tools) == 1:
                cases.append(Case(messages[0]["content"], tools.pop()))
    return cases


def strays(folder: Path) -> list[str]:
    """BFCL's questions that fit none of the tools offered with them: mathematics, trivia."""
    items = _lines(folder / "BFCL_v4_irrelevance.json")
    return [item["question"][0][0]["content"] for item in items]


def answered(tools: Any, requests: Sequence[str], embed: Any = None) -> dict[str, Any]:
    """The twin of recall: the share of requests that find a tool where none fits."""
    from breadcrumbs.eval.intervals import rate
    from breadcrumbs.gateway.search import ToolIndex

    index = ToolIndex(tools, embed)
    return rate([bool(index.search(request, 1)) for request in requests]).to_dict()


def measure(tools: Any, cases: Sequence[Case], embed: Any = None) -> dict[str, Any]:
    """Recall at each depth, as estimates, over the cases."""
    from breadcrumbs.eval.intervals import rate
    from breadcrumbs.gateway.search import ToolIndex

    index = ToolIndex(tools, embed)
    hits = [[spec.name for spec in index.search(case.request, max(DEPTHS))] for case in cases]
    found: dict[str, Any] = {"tools": len(tools.tools)}
    for depth in DEPTHS:
        outcomes = [case.tool in names[:depth] for case, names in zip(cases, hits, strict=True)]
        found[f"recall@{depth}"] = rate(outcomes).to_dict()
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _called(call: str) -> str:
    """The tool of a recorded call, such as `cd(folder='document')`; it is parsed, never run."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"no plain call: {call}")
    return node.func.id


def main() -> None:
    """Measure, and print a table or JSON."""
    from breadcrumbs.gateway.catalog import Catalog, load_catalog
    from breadcrumbs.gateway.imports.importing import import_sources
    from breadcrumbs.gateway.sentence_encoder import SentenceEncoder

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--bfcl", type=Path, help="folder of BFCL's multi-turn sets")
    parser.add_argument("--distractors", type=Path, nargs="*", default=[], help="more tools")
    parser.add_argument("--encoder", type=Path, help="folder of a sentence encoder, to fuse with")
    options = parser.parse_args()
    embed = None if options.encoder is None else SentenceEncoder(options.encoder)
    results = {"own": measure(load_catalog(), own_cases(), embed)}
    stray: dict[str, Any] = {}
    if options.bfcl is not None:
        stray = answered(load_catalog(), strays(options.bfcl), embed)
        catalogs: dict[str, list[Path]] = {"bfcl": []}
        if options.distractors:
            catalogs["bfcl among others"] = options.distractors
        for name, others in catalogs.items():
            report = import_sources([options.bfcl / "multi_turn_func_doc", *others])
            tools = Catalog({tool.spec.name: tool.spec for tool in report.tools})
            results[name] = measure(tools, bfcl_cases(options.bfcl), embed)
    if options.json:
        print(json.dumps({**results, "own, none fits": stray}, indent=2))
        return
    for name, found in results.items():
        shares = ", ".join(
            f"recall@{depth} {found[f'recall@{depth}']['value']:.3f}"
            f" [{found[f'recall@{depth}']['low']:.3f}, {found[f'recall@{depth}']['high']:.3f}]"
            for depth in DEPTHS
        )
        print(f"{name:<18} {found['tools']:>5} tools, {found['recall@1']['n']} requests: {shares}")
    if stray:
        print(
            f"own, none fits: {stray['n']} requests, a tool is offered all the same:"
            f" {stray['value']:.3f} [{stray['low']:.3f}, {stray['high']:.3f}]"
        )


if __name__ == "__main__":
    main()
