# `make demo` and `make test` set up everything that they need. The other targets are below.

PYTHON ?= python3
# Most tests wait, so run three processes on each of two cores. Each has its own virtual hosts.
TESTERS ?= 6
SOAK ?= 100
FAULTS ?= 100
SEEDS ?= 10000
SEED ?= 1
REPORT ?= gpu-report
BASE ?= main
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
ENGINES := $(VENV)/engines
BYTECODE := $(VENV)/bytecode
VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'

# Compile each module once, not in each of the thousands of commands that the tests start.
unexport PYTHONDONTWRITEBYTECODE

RUN = $(BIN)/python -m pytest --numprocesses $(TESTERS) --dist worksteal
PREPARE = @$(MAKE) --no-print-directory --jobs 2 --output-sync lint check engines $(BYTECODE)

.PHONY: demo test test-ci test-all test-near test-python fast faults simulate soak gpu release lint check docs
.PHONY: setup system browser recipes engines clean

## Run a real training on this machine, and on virtual hosts if possible.
demo: setup
	$(BIN)/dsrun --num_gpus 2 examples/train_ddp.py
	@sh examples/demo_hosts.sh $(BIN)

## Lint, types, all tests without hosts, and the tests on hosts that do not depend on the launcher.
test:
	$(PREPARE)
	$(RUN) --tier test

## What every change must pass: `make test` and the other tests on hosts.
test-ci:
	$(PREPARE)
	$(RUN) --tier ci

## Everything: each test with each launcher, statistics, and the soak.
test-all: browser recipes
	$(PREPARE)
	DSRUN_SOAK=$(SOAK) $(RUN) --tier all

## Test the modules changed since main (or since BASE=COMMIT), and the modules that import them.
test-near: setup
	$(BIN)/python -m tests.near --base $(BASE) -- --numprocesses $(TESTERS) --dist worksteal

## Run the tests without hosts with another Python: make test-python PYTHON=python3.14
test-python:
	@$(MAKE) --no-print-directory VENV=$(VENV)/$$($(PYTHON) $(VERSION)) fast

fast: setup
	$(RUN) --tier test --ignore tests/cluster

## Inject a hundred faults into a training run; takes about half an hour.
soak: setup
	DSRUN_SOAK=$(SOAK) $(BIN)/python -m pytest tests/cluster/test_soak.py

## Plant faults in the code, one at a time, and run the tests of the changed module.
faults: setup
	$(BIN)/python -m tests.planted_faults --count $(FAULTS) --seed $(SEED) --jobs $(TESTERS)

## Simulate whole jobs with faults in virtual time, one per seed.
simulate: setup
	$(BIN)/python -m tests.simulation --seeds 0-$$(($(SEEDS) - 1)) --jobs 2

## Try dsrun on this machine's NVIDIA GPU, for at most 8 minutes; PYTHON must have torch.
gpu:
	@$(PYTHON) -m tests.gpu --report $(REPORT)

## Build and test wheel, source archive, component list and checksums in dist/; uploads nothing.
release: setup
	$(BIN)/python -m tests.release dist
	DSRUN_TEST_DIST=dist $(BIN)/python -m pytest --quiet --tier ci tests/release tests/test_packaging.py
	cd dist && sha256sum dsrun-* >SHA256SUMS && cat SHA256SUMS

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=tests/import $(BIN)/lint-imports --no-cache

check: setup
	$(BIN)/mypy

## Write the files that are generated from the code; a test checks that they are up to date.
docs: setup
	$(BIN)/python -m docs.generate

setup: system $(READY)

## Install the system packages of the tests and the demo; without root, only list them.
system:
	@sh .ci/packages

## Install a browser, which the tests of job pictures use.
browser: setup
	@sh .ci/packages browser
	$(BIN)/python -m pip install --quiet --group browser

## Install the frameworks that docs/recipes.md trains with.
recipes: setup
	$(BIN)/python -m pip install --quiet --group recipes

# Tests start Python many thousands of times, and setuptools' finder takes half the time of each start.
# So a folder on the path replaces the finder.
$(READY): pyproject.toml | system
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	echo '$(CURDIR)/tests/import' >$$(echo $(VENV)/lib/python3.*/site-packages/__editable__.dsrun-*.pth)
	touch $(READY)

# Done once. Otherwise, each test process would rewrite the assertions of all tests.
$(BYTECODE): $(READY)
	-@$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $(BYTECODE)

## Install MPI launchers for the tests, each in its own environment.
engines: $(ENGINES)/ready

$(ENGINES)/ready: .ci/engines $(READY)
	@sh .ci/engines $(ENGINES) $(BIN)/python

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
