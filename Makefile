# Every command of the house. `make` or `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
TORCH  := .venv-torch
CUDA   := .venv-cuda
DOCS   := .venv-docs
SECONDS_DEMO ?= 60
# Where PYTHONDONTWRITEBYTECODE is set, every process would compile its modules for itself.
# compileall does not follow links to folders, so these are named.
COMPILE := $(BIN)/python -m compileall -q ansorpy ansorpy/rules ansorpy/server

.PHONY: help setup demo lint test test-torch test-cuda check fix golden test-all docs notebooks bench bench-peers bench-suite columnar serve wheel release lock clean load

help:  ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

# Dependencies come from the locks, every file by its hash; the package itself is linked. uv installs
# in a quarter of pip's time; pip takes over where only its own settings know the package index.
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
HASHED := --require-hashes --only-binary :all:
define LOCKED
$(PIP) $(HASHED) -r requirements-build.lock
$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python $(HASHED) -r $(1) || $(PIP) $(HASHED) -r $(1)
$(PIP) --no-deps --no-build-isolation --editable .
$(COMPILE)
endef

$(VENV)/run.ok: pyproject.toml requirements.lock requirements-build.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call LOCKED,requirements.lock)
	touch $@

$(VENV)/dev.ok: pyproject.toml requirements-dev.lock requirements-build.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(call LOCKED,requirements-dev.lock)
	touch $@ $(VENV)/run.ok

$(VENV)/bench.ok: pyproject.toml $(VENV)/dev.ok
	$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	touch $@

# torch has an environment of its own: it is no dependency of the package or of its development.
$(TORCH)/run.ok: pyproject.toml tests/torch/requirements.txt
	test -x $(TORCH)/bin/python || $(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet -r tests/torch/requirements.txt --editable '.[torch]'
	touch $@

# ptxas and nvdisasm, too: they come under a licence of NVIDIA.
$(CUDA)/run.ok: pyproject.toml requirements-dev.lock requirements-build.lock
	test -x $(CUDA)/bin/python || $(PYTHON) -m venv $(CUDA)
	$(CUDA)/bin/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements-dev.lock -r requirements-build.lock
	$(CUDA)/bin/python -m pip install --quiet --no-build-isolation --editable '.[cuda]'
	touch $@

# The site and the notebooks but one, which needs torch: $(TORCH).
$(DOCS)/run.ok: pyproject.toml requirements-docs.lock requirements-build.lock $(VENV)/dev.ok
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(BIN)/uv pip install --quiet --python $(DOCS)/bin/python $(HASHED) -r requirements-docs.lock -r requirements-build.lock \
		|| $(DOCS)/bin/python -m pip install --quiet $(HASHED) -r requirements-docs.lock -r requirements-build.lock
	$(DOCS)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

setup: $(VENV)/dev.ok  ## make .venv with all that development needs

demo: $(VENV)/run.ok  ## tune a conv2d + bias + relu through the service, download it, check it, time it
	$(BIN)/python examples/demo.py --seconds $(SECONDS_DEMO)

serve: $(VENV)/run.ok  ## start the service on http://127.0.0.1:8720
	$(BIN)/ansorpy serve

# Three workers for two cores: tests that wait for a process or a stream leave a quarter of them idle.
test: $(VENV)/dev.ok  ## run the tests that every change must pass
	$(BIN)/python -m pytest -q -m 'not night and not torch and not cuda' -n 3 --dist loadfile --no-loadscope-reorder

test-torch: $(TORCH)/run.ok  ## the tests that need PyTorch, in an environment of their own (.venv-torch)
	$(TORCH)/bin/python -m pytest -q -m torch tests/torch

test-cuda: $(CUDA)/run.ok  ## the tests that need ptxas, nvdisasm and numba-cuda, in an environment of their own (.venv-cuda)
	$(CUDA)/bin/python -m pytest -q -m 'cuda and not night' tests/codegen/simt tests/artifact/test_cuda.py tests/cost

test-all: $(VENV)/dev.ok wheel  ## every test: whole products, sweeps, kills, storms and the wheel too (some hours)
	$(BIN)/python -m pytest -q --timeout 3600 -n 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/dev.ok  ## style, types, import floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint  ## what must hold before a push: style, types, import floors, fast tests
	$(BIN)/python -m pytest -q -m 'not slow and not night and not torch and not cuda'

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
	$(BIN)/python -m benchmarks.suite.measured

columnar: $(VENV)/bench.ok  ## candidates sampled, featurised and scored per second on one core
	$(BIN)/python -m benchmarks.columnar

docs: $(DOCS)/run.ok  ## build the site into .site: every block and two notebooks run, links and words checked (ten minutes)
	$(DOCS)/bin/python -m docs.site

notebooks: $(DOCS)/run.ok $(TORCH)/run.ok  ## execute all notebooks of docs/notebooks, and keep their outputs
	$(DOCS)/bin/python -m docs.site.notebooks --torch $(TORCH)/bin/python

load: $(VENV)/bench.ok  ## the service under 50 pollers while a job is tuned (four minutes)
	$(BIN)/python -m benchmarks.load

wheel: $(VENV)/dev.ok  ## install the wheel with the lowest and with the locked versions, and use it beside hostile folders
	$(BIN)/python -m tests.wheel.run

release: $(VENV)/dev.ok  ## build dist/ from a clean tree, use the wheel in clean environments, tag the version; uploads nothing
	$(BIN)/python -m tests.wheel.release

lock: $(VENV)/dev.ok  ## resolve the dependencies anew, for Python 3.11 to 3.13
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11 --extra postgres \
		pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11 --extra postgres --extra ray \
		-c requirements.lock pyproject.toml -o requirements-ray.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11 --extra postgres --extra dev \
		-c requirements.lock pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11 --extra docs \
		-c requirements-dev.lock pyproject.toml -o requirements-docs.lock
	printf "hatchling\neditables\nuv\n" | $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header -p 3.11 \
		-c requirements-dev.lock - -o requirements-build.lock

clean:  ## remove the virtual environment and the caches
	rm -rf $(VENV) $(TORCH) $(CUDA) $(DOCS) .site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .demo
