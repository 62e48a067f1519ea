# make demo and make test do all the set-up: a machine needs Python 3.11 or newer, make and
# access to PyPI. Everything they install goes into .venv; nothing else is touched.

VENV := .venv
BIN := $(VENV)/bin

# The first Python on the PATH that is new enough; PYTHON=/path/to/python make … overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; \
	done)

# Tests at once. Most of a test is a process that waits, so a few more than the processors.
JOBS ?= 3

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
CODE := config hooks memsearch pipeline recall sinks sources workers
FILES := $(shell find $(CODE) -type f ! -name '*.py[co]' ! -name '.*' | LC_ALL=C sort)

# What .venv holds: a normal install (make demo on a fresh clone), or an editable one with the
# tools (every other target). The second serves make demo as well, so it is kept once it is there.
NORMAL := $(VENV)/installed
EDITABLE := $(VENV)/editable
LISTED := $(VENV)/files

.DEFAULT_GOAL := help
.PHONY: help demo test soak fuzz test-clients lint types check bench clean FORCE

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(if $(wildcard $(EDITABLE)),$(EDITABLE),$(NORMAL))  ## Drive two recorded turns the whole way, in a temporary home
	@$(BIN)/memsearch demo

# Not "python -m pytest": that puts this folder on the import path, where the folder
# memsearch/ hides the package.
test: $(EDITABLE)  ## Run the unit, integration and acceptance tests (JOBS=3 at once)
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

# The agents come from npm, once, into a cache; MEMSEARCH_TEST_CLAUDE and the like name others.
test-clients: $(EDITABLE)  ## Run the real agents from npm against a stub model
	$(BIN)/pytest -n $(JOBS) --dist loadfile -m client tests/clients $(ARGS)

# Some minutes of kills and faults from seeds; each prints what it did and what was left.
soak: $(EDITABLE)  ## Kill and disturb it for minutes, then count (ARGS="--seeds 7 8 9")
	$(BIN)/python -P tests/acceptance/storm.py --turns 200 $(ARGS)
	$(BIN)/python -P tests/acceptance/storm.py --turns 200 --pace-seconds 0.3 --kill-seconds 4 \
		--faults all $(ARGS)

fuzz: $(EDITABLE)  ## Fuzz what reads other people's text (FUZZ_SECONDS=1800)
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),120) $(BIN)/python -P tests/fuzz/fuzz.py $(ARGS)

lint: $(EDITABLE)  ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# From another folder, for the same reason.
types: $(EDITABLE)  ## Check the types of the whole package
	cd $(VENV) && bin/mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache -p memsearch

check: lint types test  ## All three

bench: $(EDITABLE)  ## Measure what benchmarks/ measures
	$(BIN)/python benchmarks/enqueue.py

clean:  ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find $(CODE) tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { \
		echo "memsearch needs Python 3.11 or newer, and none is on the PATH." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is no Python 3.11 or newer. Name another: make PYTHON=/path/to/python3.11 …" >&2; \
		exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu:" >&2; \
		echo "  apt install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# A normal install copies the files, so any change asks for a new one.
$(NORMAL): $(BIN)/python pyproject.toml $(FILES)
	@echo "Installing memsearch into $(VENV) (the first time some 800 MB of libraries, a few minutes) …"
	@rm -rf build/lib build/bdist.*  # what an older build left would be installed again
	@$(PIP) install .
	@touch $@

# The strict editable tree is made of links to files: a new or removed file asks for a new tree.
$(EDITABLE): $(BIN)/python pyproject.toml $(LISTED)
	@echo "Installing memsearch and its tools into $(VENV) (the first time some 900 MB, a few minutes) …"
	@$(PIP) install -e ".[dev]" --config-settings editable_mode=strict
	@rm -f $(NORMAL)
	@touch $@

$(LISTED): FORCE | $(BIN)/python
	@printf '%s\n' $(FILES) | cmp -s - $@ || printf '%s\n' $(FILES) > $@
