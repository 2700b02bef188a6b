# Every command of the house. `make` or `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SECONDS_DEMO ?= 60
# Where PYTHONDONTWRITEBYTECODE is set, every process of a tuning would compile 290 modules for itself.
COMPILE := $(BIN)/python -m compileall -q ansorpy

.PHONY: help setup demo test check fix golden test-all bench bench-peers bench-suite columnar serve clean load

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(VENV)/run.ok: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	$(COMPILE)
	touch $@

$(VENV)/dev.ok: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(COMPILE)
	touch $@ $(VENV)/run.ok

$(VENV)/bench.ok: pyproject.toml $(VENV)/dev.ok
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	touch $@

setup: $(VENV)/dev.ok  ## make .venv with all that development needs

demo: $(VENV)/run.ok  ## tune a conv2d + bias + relu through the service, download it, check it, time it
	$(BIN)/python examples/demo.py --seconds $(SECONDS_DEMO)

serve: $(VENV)/run.ok  ## start the service on http://127.0.0.1:8720
	$(BIN)/ansorpy serve

test: $(VENV)/dev.ok  ## run the tests (under 15 minutes on two cores): in parallel, then what measures, alone
	$(BIN)/python -m pytest -q -m 'not measure' -n 2 --dist loadfile; first=$$?; \
	$(BIN)/python -m pytest -q -m measure && exit $$first

test-all: $(VENV)/dev.ok  ## the tests with the 2,000 random pairs of the night
	ANSORPY_NIGHT=1 $(BIN)/python -m pytest -q --timeout 3600

check: $(VENV)/dev.ok  ## what must hold before a push: style, types, import floors, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -m 'not slow and not measure'

fix: $(VENV)/dev.ok  ## format, and mend what can be mended by itself
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

golden: $(VENV)/dev.ok  ## rewrite the golden files; read the diff
	$(BIN)/python -m pytest -q --update-golden
	git status --short tests/golden

bench: $(VENV)/bench.ok  ## the benchmarks; tables go to benchmarks/results
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/bench.ok  ## the environments of the peers of the suite, in .peers (some GB; each is optional)
	$(BIN)/python -m benchmarks.suite.environments

bench-suite: $(VENV)/bench.ok  ## the operator suite against its peers: tune, contests, tables, plots
	$(BIN)/python -m benchmarks.suite $(SUITE)
	$(BIN)/python -m benchmarks.suite.readme

columnar: $(VENV)/bench.ok  ## candidates sampled, featurised and scored per second on one core
	$(BIN)/python -m benchmarks.columnar

load: $(VENV)/bench.ok  ## the service under 50 pollers while a job is tuned (four minutes)
	$(BIN)/python -m benchmarks.load

clean:  ## remove the virtual environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .demo
