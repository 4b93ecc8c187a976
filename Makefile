# `make demo` and `make test` set up what they need first; what else there is stands below.

PYTHON ?= python3
# Most tests wait for something, so two for each of two cores; each has virtual hosts of its own.
TESTERS ?= 4
SOAK ?= 100
FAULTS ?= 100
SEED ?= 1
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
ENGINES := $(VENV)/engines

RUN = $(BIN)/python -m pytest --numprocesses $(TESTERS) --dist worksteal

.PHONY: demo test test-ci test-all faults soak lint check docs setup system engines clean

## The main job: a real training here, and across real virtual hosts where that is possible.
demo: setup
	$(BIN)/dsrun --num_gpus 2 examples/train_ddp.py
	@sh examples/demo_hosts.sh $(BIN)

## Lint, types, all tests without hosts, and of those on hosts what is the same over all launchers.
test: lint check engines
	$(RUN) --tier test

## What every change must pass: these, and all else that hosts alone can show.
test-ci: lint check engines
	$(RUN) --tier ci

## Everything: each test with each launcher, statistics, and the soak.
test-all: lint check engines
	DSRUN_SOAK=$(SOAK) $(RUN) --tier all

## A training that a hundred things happen to, for about half an hour.
soak: setup
	DSRUN_SOAK=$(SOAK) $(BIN)/python -m pytest tests/cluster/test_soak.py

## Faults planted one at a time, each against the tests of its module.
faults: setup
	$(BIN)/python -m tests.planted_faults --count $(FAULTS) --seed $(SEED) --jobs $(TESTERS)

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

## Packages of the system that tests and demo use; installed when this is root, named when not.
system:
	@sh .ci/packages

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $(READY)

## MPI launchers for the tests, and what they start, in environments of their own.
engines: $(ENGINES)/ready

$(ENGINES)/ready: .ci/engines $(READY)
	@sh .ci/engines $(ENGINES) $(BIN)/python

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache
