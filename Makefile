# Two commands do everything: `make demo` and `make test`. Both set up what they need first.

PYTHON ?= python3
# Most tests wait for something; each of these processes has virtual hosts of its own.
TESTERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
ENGINES := $(VENV)/engines

.PHONY: demo test soak lint check setup system engines clean

## The main job: a real training here, and across real virtual hosts where that is possible.
demo: setup
	$(BIN)/dsrun --num_gpus 2 examples/train_ddp.py
	@sh examples/demo_hosts.sh $(BIN)

## All tests, after lint and types.
test: lint check engines
	$(BIN)/python -m pytest --numprocesses $(TESTERS) --dist loadfile

## A training that a hundred things happen to, for about half an hour.
soak: setup
	DSRUN_SOAK=100 $(BIN)/python -m pytest tests/cluster/test_soak.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=tests/import $(BIN)/lint-imports --no-cache

check: setup
	$(BIN)/mypy

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
