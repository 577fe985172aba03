# Two commands: `make run` does the main job, `make test` passes the tests. Both set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip compiles what it copies, and an editable install copies nothing: without bytecode every start takes half as long again.
COMPILE := $(BIN)/python -m compileall -q assistant probes recipes

.PHONY: run test
.DELETE_ON_ERROR:

run: $(VENV)/.installed
	@$(BIN)/rigtune

test: $(VENV)/.installed-test
	$(BIN)/ruff check assistant probes recipes tests
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2 --dist worksteal -rs $(PYTEST_ARGS)

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("rigtune needs Python 3.10 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else None'
	@$(PYTHON) -m venv $(VENV) || { echo 'Cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }
	@touch $@

$(VENV)/.installed: pyproject.toml assistant/_entry.py | $(VENV)/.made
	@echo 'Setting up rigtune in $(VENV) ...' >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . >&2
	@$(COMPILE) >&2
	@touch $@

$(VENV)/.installed-test: pyproject.toml assistant/_entry.py | $(VENV)/.made
	@echo 'Setting up rigtune and its tests in $(VENV) ...' >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' >&2
	@$(COMPILE) >&2
	@touch $@ $(VENV)/.installed
