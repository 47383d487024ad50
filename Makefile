# Needs Python >= 3.11 and make; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PACKAGES := packages/omniloader packages/blinklinmult
CODE := $(PACKAGES) tests examples benchmarks docs
MANIFESTS := constraints.txt requirements-dev.txt requirements-docs.txt $(PACKAGES:=/pyproject.toml)
OUT := out

.DEFAULT_GOAL := help
.PHONY: help install fix check unit docs test bench demo constraints clean

help: ## list these verbs
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

install: $(STAMP) ## make .venv with both packages (editable) and the tools

# The version is asked first: an old Python fails here in one line, not in the middle of pip.
$(STAMP): $(MANIFESTS)
	@$(PYTHON) -c 'import sys; sys.exit("$(PYTHON) is Python %d.%d, needed is 3.11 or newer: make PYTHON=python3.11 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -r requirements-dev.txt -r requirements-docs.txt \
	    -e 'packages/omniloader[fast,lightning,ray,report,torchdata]' -e 'packages/blinklinmult[video]'
	@touch $@

fix: $(STAMP) ## format, and repair what ruff can repair
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

check: $(STAMP) ## format, lint, types, import contracts
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: $(STAMP) ## the tests, with branch coverage; some: make unit ARGS='-k plan'
	$(BIN)/coverage erase
	$(BIN)/pytest $(or $(ARGS),--cov --cov-report=term)

docs: $(STAMP) ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

test: check unit docs ## everything CI runs

bench: $(STAMP) ## the benchmarks, or one of them: make bench WORKLOAD=plan
	$(BIN)/python benchmarks/run.py $(WORKLOAD)

demo: $(STAMP) ## train on four real corpora, then say where the report is
	@mkdir -p $(OUT)
	$(BIN)/python examples/train_joint.py

constraints: $(STAMP) ## write the versions of .venv to constraints.txt
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --exclude-editable \
	    | sed -E '/^(omniloader|blinklinmult)[=@ ]/d; s/\+cpu$$//'; } > constraints.txt.new
	@mv constraints.txt.new constraints.txt

clean: ## remove what the other verbs made, .venv included
	rm -rf $(VENV) $(OUT) site htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache \
	    .hypothesis .import_linter_cache packages/*/dist
