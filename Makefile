# Each target makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: test test-python test-versions kernels demo bench study study-bounds lint docs paper clean

$(VENV)/.%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$*]"
	touch $@

# Two processes share the kernels, which are compiled before. Tests of time and signals have the machine for themselves.
test: $(VENV)/.test
	$(BIN)/python -m svmatlas compile
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not alone" $(ARGS)
	$(BIN)/python -m pytest -m alone $(ARGS)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest tests/test_engine_*.py $(ARGS)

# Kernels uncompiled, with line coverage; and compiled with bounds checks.
test-python: $(VENV)/.test
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest tests/test_engine_*.py $(ARGS)
	$(BIN)/python -m coverage report
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/bounds $(BIN)/python -m pytest tests/test_canonical.py tests/test_mersenne.py $(ARGS)

# The oldest numba that pyproject.toml allows, and the newest; and its public interface alone.
test-versions:
	for numba in "numba==0.60.* numpy<2.1" "numba"; do \
		$(PYTHON) -m venv --clear $(VENV)-numba && \
		$(VENV)-numba/bin/python -m pip install --quiet --disable-pip-version-check $$numba -e ".[test]" && \
		$(VENV)-numba/bin/python -m pytest tests/test_compiled.py tests/test_canonical.py tests/test_mersenne.py || exit 1; \
	done
	SVMATLAS_PLAIN=1 $(VENV)-numba/bin/python -m pytest tests/test_mersenne.py tests/test_canonical.py -k "not plain"

# The list of kernels that are compiled ahead (src/svmatlas/engine/kernels.json).
kernels: $(VENV)/.test
	$(BIN)/python -m svmatlas.cli.prepare

$(VENV)/.compiled: $(VENV)/.demo
	$(BIN)/python -m svmatlas compile
	touch $@

demo: $(VENV)/.compiled
	$(BIN)/python -m svmatlas demo

bench: $(VENV)/.bench
	$(BIN)/python bench/bench.py $(ARGS)

# Hours: it can be stopped, and goes on where it was. The results become docs/study.md.
study: $(VENV)/.study
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python study/study.py $(ARGS)
	$(BIN)/python study/report.py

# How near select gets to a proof on each set of the study. It can be stopped, and goes on where it was.
study-bounds: $(VENV)/.study
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python study/bounds.py $(ARGS)
	$(BIN)/python study/report.py

paper: $(VENV)/.demo
	$(BIN)/python examples/paper/run.py $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/build
	! grep -rlE '<(script|link|img)[^>]*(src|href)="https?://' docs/build --include='*.html'  # pages are whole without a network

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VENV)-numba .coverage build dist *.egg-info src/*.egg-info docs/build demo examples/paper/out
