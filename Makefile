# make demo · make test · make check · make bench. Each sets up .venv first, once.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find runtime gateway data_gen train eval configs -type f -not -name '*.pyc')

export HF_HUB_DISABLE_TELEMETRY := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo test audit-trial conformance check bench install help clean

help: ## what each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: install ## the whole idea on a real model, about 50 minutes on two cores
	$(BIN)/breadcrumbs demo

test: install ## every test, under ten minutes
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

audit-trial: install ## the audit on public MCP servers and agent frameworks, two minutes
	$(BIN)/python -m pytest -m audit_trial tests/eval/test_audit_trial.py

conformance: install ## the public MCP conformance suite and inspector against the gateway, a minute; needs npm
	$(BIN)/python -m pytest -m conformance tests/runtime/test_conformance.py

check: install ## format, lint, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install ## speed, as ratios against named baselines; writes runs/bench.json
	$(BIN)/python scripts/bench.py

install: $(VENV)/.package ## .venv with pinned dependencies and this package

$(VENV)/.dependencies: constraints.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt '.[dev]'
	$(BIN)/python -m pip uninstall --quiet --yes breadcrumbs
	touch $@

# A stale build/ would put deleted modules into the package.
$(VENV)/.package: $(VENV)/.dependencies $(SOURCES)
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall .
	touch $@

clean: ## remove .venv and build output, keep runs/
	rm -rf $(VENV) build *.egg-info
