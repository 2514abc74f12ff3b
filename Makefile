# Everything a developer or CI runs. Needs make and a Python of at least 3.11; the rest is installed
# into .venv on first use, and again only when pyproject.toml changes.
#
#   make demo     run examples/quickstart.py on real pictures and text
#   make test     lint, types, tests and doctests
#   make test-frameworks   the tests with Ray, Dask, Lightning, Accelerate and Hugging Face, which it installs
#   make test-lowest   many tests with the lowest versions that pyproject.toml allows
#   make record   write down the CPU seconds of the last `make test`, which later ones are shown beside
#   make stress   the long tests, and those of concurrency 200 times under load; ROUNDS=5 for fewer
#   make mutants  break the package in some eighty ways, and see whether the tests notice; ROOM=engine for one room
#   make bench    measure seqkit beside its peers; BENCHMARKS=views runs one part
#   make dist     build wheel and sdist, check them, and run README's first example with the wheel
#   make docs     build the site into build/docs; warnings are errors. LINKS=1 adds links to Python, numpy and
#                 PyTorch (LINKS=FOLDER without the network: docs/conf.py says how), and
#                 VERSIONS=https://host/versions.json a switch between versions
#   make lint     ruff, mypy and pyrefly alone
#   make clean    remove environments and caches
#
# Another interpreter: make test PYTHON=python3.12 (after `make clean`).

PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
SITE   := .venv-docs
DIST   := .venv-dist
LOWEST := .venv-lowest
ROUNDS ?= 200
BIN    := $(VENV)/bin
# Compiling all modules of all libraries takes longer than those that are imported need.
INSTALL := -m pip --quiet --disable-pip-version-check install --no-compile
PIP    := $(INSTALL) --editable
# Old makes (macOS has one) cannot keep the output of targets apart.
SYNC   := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# The longest first: make runs three parts side by side, and starts the next one when one ends. Two CPUs suffice
# for three parts, because the tests of the engine wait for a third of their time.
PARTS  := test-engine test-loaders test-others test-examples test-laws test-libraries test-streams lint test-sources

export PIP_ROOT_USER_ACTION := ignore
export PIP_NO_INPUT := 1
# Tests and benchmarks start many interpreters, which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test $(PARTS) test-frameworks test-lowest record stress mutants bench dist docs clean

# Tests that start workers run in processes of their own. Libraries that others load (polars, pandas) have
# threads, and beside those threads workers are not forked. A large process also takes longer to fork: HEAVY
# are the files that cannot be collected without PyTorch or Arrow.
LOADERS := tests/loader tests/samplers tests/collation
HEAVY   := tests/engine/test_arrow.py tests/engine/test_torch_modes.py tests/loader/test_epochs.py \
           tests/loader/test_options.py tests/loader/test_torch.py
LAWS    := tests/test_conformance.py tests/test_verify.py
APART   := tests/engine $(LOADERS) $(LAWS) tests/sources tests/streams tests/test_examples.py

help:
	@sed -n 's/^#   //p' Makefile

demo: $(VENV)/.examples
	$(BIN)/python examples/quickstart.py

test: export TEST_CPU := $(CURDIR)/build/test-cpu
test: $(VENV)/.test
	@echo 'Lint and parts of the tests run side by side, some minutes; each shows what it printed when it is over.'
	@rm -rf $(TEST_CPU)
	@$(MAKE) --no-print-directory --jobs=3 $(SYNC) $(PARTS)
	@$(BIN)/python -m tests.cpu

test-engine:
	$(BIN)/python -m pytest tests/engine $(addprefix --ignore=,$(HEAVY))

test-others:
	$(BIN)/python -m pytest $(addprefix --ignore=,$(APART))

test-examples:
	$(BIN)/python -m pytest tests/test_examples.py

test-loaders:
	$(BIN)/python -m pytest $(LOADERS) $(addprefix --ignore=,$(HEAVY) tests/loader/test_frameworks.py tests/loader/test_ranks.py)

test-libraries:
	$(BIN)/python -m pytest $(HEAVY)

test-frameworks: $(VENV)/.frameworks
	$(BIN)/python -m pytest -m "frameworks and not stress" tests/loader/test_frameworks.py tests/loader/test_ranks.py tests/test_engines.py \
		tests/test_examples.py

test-lowest: $(LOWEST)/.lowest
	$(LOWEST)/bin/python -m pytest tests/core tests/views tests/collation tests/samplers tests/sources tests/stores

record:
	$(BIN)/python -m tests.cpu record

test-laws:
	$(BIN)/python -m pytest $(LAWS)

test-streams:
	$(BIN)/python -m pytest tests/streams

test-sources:
	$(BIN)/python -m pytest tests/sources

lint: $(VENV)/.test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@$(BIN)/python -m tests.cpu timed mypy $(BIN)/mypy
	@$(BIN)/python -m tests.cpu timed pyrefly $(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

stress: $(VENV)/.test
	$(BIN)/python -m pytest -m "stress or start_methods" --timeout=900 $(LOADERS)
	$(BIN)/python -m pytest -m "stress or start_methods" --timeout=900 tests/streams
	$(BIN)/python -m pytest -m "stress or start_methods" --timeout=900 \
		$(addprefix --ignore=,$(LOADERS) tests/streams)
	$(BIN)/python -m tests.stress --rounds $(ROUNDS)

mutants: $(VENV)/.test
	$(BIN)/python -m tests.mutants $(ROOM)

bench: $(BENCH)/.bench
	$(BENCH)/bin/python -m benchmarks $(BENCHMARKS)

# The wheel is built from the sdist. Its environment holds nothing else at first, then the "examples" extra.
dist: EMPTY := build/empty
dist: $(DIST)/.dist
	rm -rf dist $(EMPTY)
	$(DIST)/bin/python -m build
	$(DIST)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/bin/python $(INSTALL) dist/*.whl
	$(EMPTY)/bin/python -I tests/smoke.py
	wheel=$$(echo dist/*.whl) && $(EMPTY)/bin/python $(INSTALL) "$$wheel[examples]"
	$(EMPTY)/bin/python -I tests/readme.py

docs: $(SITE)/.docs
	LINKS=$(LINKS) VERSIONS=$(VERSIONS) $(SITE)/bin/python -m sphinx --quiet --fail-on-warning --keep-going -c docs . build/docs
	@echo 'Open build/docs/index.html.'

clean:
	rm -rf $(VENV) $(BENCH) $(SITE) $(DIST) $(LOWEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp file says that an environment exists, another that an extra is installed in it.

define make_environment
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "seqkit needs Python 3.11 or newer, and '$(PYTHON)' is not:" \
	     "$$($(PYTHON) --version 2>&1 | head -n 1). Name another one: make PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -m venv --clear $(@D) || { \
	echo "'$(PYTHON) -m venv' failed; some systems ship that module as a package of its own." >&2; exit 1; }
@touch $@
endef

$(VENV)/.made $(BENCH)/.made $(SITE)/.made $(DIST)/.made $(LOWEST)/.made:
	$(make_environment)

$(VENV)/.examples: $(VENV)/.made pyproject.toml
	$(BIN)/python $(PIP) '.[examples]'
	@touch $@

# The test extra contains the examples one.
$(VENV)/.test: $(VENV)/.made pyproject.toml
	$(BIN)/python $(PIP) '.[test]'
	@touch $(VENV)/.examples $@

$(VENV)/.frameworks: $(VENV)/.test
	$(BIN)/python $(PIP) '.[test,test-frameworks]'
	@touch $@

$(BENCH)/.bench: $(BENCH)/.made pyproject.toml
	$(BENCH)/bin/python $(PIP) '.[bench]'
	@touch $@

$(SITE)/.docs: $(SITE)/.made pyproject.toml
	$(SITE)/bin/python $(PIP) '.[docs]'
	@touch $@

$(DIST)/.dist: $(DIST)/.made
	$(DIST)/bin/python $(INSTALL) 'build>=1.2' 'twine>=6.1'
	@touch $@

$(LOWEST)/.lowest: $(LOWEST)/.made pyproject.toml
	$(LOWEST)/bin/python .ci/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python $(PIP) . --requirement $(LOWEST)/lowest.txt 'hypothesis>=6.100' 'pytest>=8' 'pytest-timeout>=2.3'
	@touch $@
