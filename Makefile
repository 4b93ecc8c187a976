# `make demo` and `make test` set up what they need. The other targets are below.

PYTHON ?= python3
# Most tests wait, so run three per core (of two); each process has its own virtual hosts.
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

# Each module is compiled once, not by each of the thousands of commands that tests start.
unexport PYTHONDONTWRITEBYTECODE

RUN = $(BIN)/python -m pytest --numprocesses $(TESTERS) --dist worksteal
PREPARE = @$(MAKE) --no-print-directory --jobs 2 --output-sync lint check engines $(BYTECODE)

.PHONY: demo test test-ci test-all test-near test-python fast faults simulate soak gpu release lint check docs
.PHONY: setup system browser recipes engines clean

## A real training on this machine, and on virtual hosts if possible.
demo: setup
	$(BIN)/dsrun --num_gpus 2 examples/train_ddp.py
	@sh examples/demo_hosts.sh $(BIN)

## Lint, types, all tests without hosts, and those on hosts of what is the same for all launchers.
test:
	$(PREPARE)
	$(RUN) --tier test

## What every change must pass: these, and the other tests on hosts.
test-ci:
	$(PREPARE)
	$(RUN) --tier ci

## Everything: each test with each launcher, statistics, and the soak.
test-all: browser recipes
	$(PREPARE)
	DSRUN_SOAK=$(SOAK) $(RUN) --tier all

## The tests of what has changed since main (BASE=COMMIT for another), and of what imports it.
test-near: setup
	$(BIN)/python -m tests.near --base $(BASE) -- --numprocesses $(TESTERS) --dist worksteal

## The tests without hosts on another Python: make test-python PYTHON=python3.14
test-python:
	@$(MAKE) --no-print-directory VENV=$(VENV)/$$($(PYTHON) $(VERSION)) fast

fast: setup
	$(RUN) --tier test --ignore tests/cluster

## A training into which a hundred faults are injected; takes about half an hour.
soak: setup
	DSRUN_SOAK=$(SOAK) $(BIN)/python -m pytest tests/cluster/test_soak.py

## Plant faults in the code, one at a time, and run the tests of the module.
faults: setup
	$(BIN)/python -m tests.planted_faults --count $(FAULTS) --seed $(SEED) --jobs $(TESTERS)

## Play simulated worlds: whole jobs with faults, in virtual time, by seed.
simulate: setup
	$(BIN)/python -m tests.simulation --seeds 0-$$(($(SEEDS) - 1)) --jobs 2

## Try dsrun on the NVIDIA GPU of this machine, at most 8 minutes; PYTHON is one that has torch.
gpu:
	@$(PYTHON) -m tests.gpu --report $(REPORT)

## Wheel, source archive, list of components and checksums in dist/, tried; nothing is uploaded.
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

## Write the files that are made from the code; a test checks that they are current.
docs: setup
	$(BIN)/python -m docs.generate

setup: system $(READY)

## System packages that tests and demo use: installed if this is root, otherwise named.
system:
	@sh .ci/packages

## A browser, which looks at pictures of jobs.
browser: setup
	@sh .ci/packages browser
	$(BIN)/python -m pip install --quiet --group browser

## The frameworks that docs/recipes.md trains with.
recipes: setup
	$(BIN)/python -m pip install --quiet --group recipes

# Tests start Python many thousand times, and setuptools' finder takes half of the time of a start:
# a folder on the path takes its place.
$(READY): pyproject.toml | system
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	echo '$(CURDIR)/tests/import' >$$(echo $(VENV)/lib/python3.*/site-packages/__editable__.dsrun-*.pth)
	touch $(READY)

# Once, as otherwise each process that runs tests would rewrite the assertions of all of them.
$(BYTECODE): $(READY)
	-@$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $(BYTECODE)

## MPI launchers for the tests, each in its own environment.
engines: $(ENGINES)/ready

$(ENGINES)/ready: .ci/engines $(READY)
	@sh .ci/engines $(ENGINES) $(BIN)/python

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
