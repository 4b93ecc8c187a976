# `make demo` and `make test` set up what they need. The other targets are below.

PYTHON ?= python3
# Most tests wait, so run three per core (of two). Each process has its own virtual hosts.
TESTERS ?= 6
SOAK ?= 100
FAULTS ?= 100
SEEDS ?= 10000
SEED ?= 1
HOURS ?= 1
REPORT ?= gpu-report
BASE ?= main
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
ENGINES := $(VENV)/engines
PROGRAMS := $(VENV)/programs
BYTECODE := $(VENV)/bytecode
VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'

# Each module is compiled once, not by each of the thousands of commands that tests start.
unexport PYTHONDONTWRITEBYTECODE

RUN = $(BIN)/python -m pytest --numprocesses $(TESTERS) --dist worksteal
PREPARE = @$(MAKE) --no-print-directory --jobs 2 --output-sync lint check engines $(BYTECODE)

.PHONY: demo test test-ci test-all test-near test-python fast faults simulate promises soak gpu release lint check docs
.PHONY: setup system browser recipes programs engines clean

## Run a real training on this machine, and on virtual hosts if possible.
demo: setup
	$(BIN)/dsrun --num_gpus 2 examples/train_ddp.py
	@sh examples/demo_hosts.sh $(BIN)

## Lint, types, all tests without hosts, and tests on hosts of what all launchers share.
test:
	$(PREPARE)
	$(RUN) --tier test

## What every change must pass: all of the above, and the other tests on hosts.
test-ci:
	$(PREPARE)
	$(RUN) --tier ci

## Run everything: each test with each launcher, statistics, and the soak.
test-all: browser recipes programs
	$(PREPARE)
	DSRUN_SOAK=$(SOAK) $(RUN) --tier all

## Run the tests of modules changed since main (or BASE=COMMIT), and of modules that import them.
test-near: setup
	$(BIN)/python -m tests.near --base $(BASE) -- --numprocesses $(TESTERS) --dist worksteal

## Run the tests without hosts on another Python: make test-python PYTHON=python3.14
test-python:
	@$(MAKE) --no-print-directory VENV=$(VENV)/$$($(PYTHON) $(VERSION)) fast

fast: setup
	$(RUN) --tier test --ignore tests/cluster

## Train while a hundred faults are injected; this takes about half an hour.
soak: setup
	DSRUN_SOAK=$(SOAK) $(BIN)/python -m pytest tests/cluster/test_soak.py

## Plant faults in the code, one at a time, and run the tests of the module.
faults: setup
	$(BIN)/python -m tests.planted_faults --count $(FAULTS) --seed $(SEED) --jobs $(TESTERS)

## Play simulated worlds: whole jobs with faults, in virtual time, by seed.
simulate: setup
	$(BIN)/python -m tests.simulation --seeds 0-$$(($(SEEDS) - 1)) --jobs 2

## Hurt jobs on virtual hosts for HOURS=1, and write docs/promises-seen.md from what was seen.
promises: setup
	$(BIN)/python -m tests.promises --hours $(HOURS)
	$(BIN)/python -m docs.generate

## Try dsrun on this machine's NVIDIA GPU for at most 8 minutes; PYTHON must have torch.
gpu:
	@$(PYTHON) -m tests.gpu --report $(REPORT)

## Build and test a release in dist/ (wheel, source archive, SBOM, checksums); upload nothing.
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

## Write the files generated from the code; a test checks that they are current.
docs: setup
	$(BIN)/python -m docs.generate

setup: system $(READY)

## Install the system packages that tests and demo use, or list them if this is not root.
system:
	@sh .ci/packages

## Install a browser for the tests of job pictures.
browser: setup
	@sh .ci/packages browser
	$(BIN)/python -m pip install --quiet --group browser

## Install the frameworks that docs/recipes.md trains with.
recipes: setup
	$(BIN)/python -m pip install --quiet --group recipes

## Install jax and Ray, which docs/programs.md runs.
# Apart from `dev`: its jsonschema takes seconds to import, and each of Ray's many processes does so.
programs: setup
	$(PYTHON) -m venv --without-pip $(PROGRAMS)
	$(BIN)/python -m pip --python $(PROGRAMS)/bin/python install --quiet --group programs

# Tests start Python many thousands of times, and setuptools' finder takes half the time of a start,
# so a folder on the path replaces it.
$(READY): pyproject.toml | system
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	echo '$(CURDIR)/tests/import' >$$(echo $(VENV)/lib/python3.*/site-packages/__editable__.dsrun-*.pth)
	touch $(READY)

# Once, because otherwise each process that runs tests would rewrite the assertions of all of them.
$(BYTECODE): $(READY)
	-@$(BIN)/python -m pytest --collect-only --quiet >/dev/null
	@touch $(BYTECODE)

## Install MPI launchers for the tests, each in its own environment.
engines: $(ENGINES)/ready

$(ENGINES)/ready: .ci/engines $(READY)
	@sh .ci/engines $(ENGINES) $(BIN)/python

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
