# Each target makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test demo bench lint docs paper clean

$(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	touch $@

test: $(VENV)/.test
	$(BIN)/python -m pytest $(ARGS)

$(VENV)/.compiled: $(VENV)/.demo
	$(BIN)/python -m svmatlas compile
	touch $@

demo: $(VENV)/.compiled
	$(BIN)/python -m svmatlas demo

bench: $(VENV)/.bench
	$(BIN)/python bench/bench.py $(ARGS)

paper: $(VENV)/.demo
	$(BIN)/python examples/paper/run.py $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/build

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info docs/build demo examples/paper/out
