# Two commands are all a newcomer needs:  make demo   and   make test.
# Everything is installed into .venv once; a second run starts at once and needs no network.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
JOBS   ?= 4  # more than two cores: tests of real runs wait most of their time
export JAVA_TOOL_OPTIONS :=

.PHONY: demo test suite bounds bench soak docs lint install clean

demo: install            ## the main job, on an embedded local Spark
	@scripts/demo

test: install            ## linters, the whole suite, and the tests of compiled functions with bounds checked
	@scripts/ensure-chromium
	@$(MAKE) --no-print-directory -j2 lint suite $(if $(ARGS),,bounds)

suite: install
	@PYTHONHASHSEED=0 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not soak" $(ARGS)

bounds: install          ## the tests of every compiled function, with bounds checked
	@NUMBA_BOUNDSCHECK=1 NUMBA_OPT=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/bounds PYTHONHASHSEED=0 \
	  $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not soak" $$($(BIN)/python -m tests.bounds)

bench: install           ## ratios measured side by side; ONLY=name runs one
	@$(BIN)/python -m benchmarks.run $(if $(ONLY),--only $(ONLY))

soak: install            ## the long tests, and the property tests with new examples
	@$(BIN)/python -m pytest -q -m "soak or hypothesis" --hypothesis-profile=soak $(ARGS)

docs: $(VENV)/.docs      ## the documentation as a site that needs no network: out/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "out/site/index.html; with search: $(BIN)/python -m http.server -d out/site"

$(VENV)/.docs: $(STAMP)
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

lint: install
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt scripts/ensure-java
	@scripts/ensure-java
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "riprap needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Install a newer one and run: make PYTHON=python3.12 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "riprap needs the venv module: on Debian, apt-get install python3-venv"; exit 3; }
	@echo "Installing into $(VENV) (once) …"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
