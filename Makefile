# Everything a newcomer needs: `make pilot` and `make test` set themselves up.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input -c constraints.txt

.PHONY: help pilot headline adaptive k_sweep placement policy_validity model_pages vote_review judge_report test test-all faults faults-long emulator live-probe lint types notebooks lab docs gallery bench interop clean

help:  ## show this list
	@grep -hE '^[a-z_-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/base: pyproject.toml constraints.txt
	@echo "Installing arena_kit and what it needs into .venv; a minute or two, once:"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) -e .
	@touch $@

.venv/dev .venv/lab .venv/docs .venv/bench: .venv/base
	@echo "Installing the extra $(@F) into .venv; once:"
	@$(PIP) -e ".[$(@F)]"
	@touch $@

.venv/peers/ready: benchmarks/peers-requirements.txt
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python -m pip install --disable-pip-version-check -r $<
	touch $@

pilot: .venv/base  ## judge 50 prompts with the demo judge and print the board
	$(BIN)/arena-kit run pilot

headline: .venv/base  ## the same on all 143 prompts
	$(BIN)/arena-kit run headline

adaptive: .venv/base  ## judge in rounds, only until the order is decided
	$(BIN)/arena-kit run adaptive

k_sweep: .venv/base  ## does the order depend on K?
	$(BIN)/arena-kit run k_sweep

judge_report: .venv/base  ## how good is the judge: agreement, bias, canaries, price
	$(BIN)/arena-kit run judge_report

placement: .venv/base  ## place a judged model among models that people voted on
	$(BIN)/arena-kit run placement

policy_validity: .venv/base  ## can the ranking of an arena be trusted this week?
	$(BIN)/arena-kit run policy_validity

model_pages: .venv/base  ## what the votes say of a few models of an arena
	$(BIN)/arena-kit run model_pages

vote_review: .venv/base  ## do any voters behave anomalously?
	$(BIN)/arena-kit run vote_review

test: .venv/dev  ## run the tests and re-check the notebooks' numbers, in six or seven minutes
test-all: .venv/dev  ## the same with the slow ones: a fresh install, kills, long simulations
test: SOME := -m "not slow"
NBVAL = $(BIN)/python -m pytest -q -p no:cacheprovider -p no:xdist --nbval-lax --nbval-current-env
test test-all:
	$(BIN)/python -m pytest -n 3 --dist worksteal $(SOME) tests
	ls -S notebooks/*.ipynb | xargs -P 3 -I NOTEBOOK sh -c 'ARENA_KIT_RUNS=$$(mktemp -d) $(NBVAL) NOTEBOOK'   # apart: a judge report counts in the gates of later runs

faults: .venv/dev  ## the crash matrix: kill the judging process everywhere, pay once
faults-long: .venv/dev  ## the same with further seeds, 1,600 runs and more
faults-long: RUNS := --runs 1600
faults faults-long:
	$(BIN)/python -m tests.faults --jobs 2 $(RUNS)

emulator: .venv/dev  ## a loopback Anthropic API to try paid judges on, for free
	$(BIN)/python -m tests.emulator --port 8787 --seconds 5 --behaviour $(or $(BEHAVIOUR),attentive)

live-probe: .venv/dev  ## check the emulator against the service (needs a key, costs cents)
	$(BIN)/python benchmarks/live_probe.py

lint: .venv/dev  ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev  ## mypy, strict
	$(BIN)/mypy

notebooks: .venv/dev  ## run the notebooks and store their checked numbers
	for each in notebooks/*.ipynb; do ARENA_KIT_RUNS=$$(mktemp -d) $(BIN)/jupyter nbconvert --log-level WARN --to notebook --execute --inplace $$each || exit 1; done
	$(BIN)/nbstripout --keep-count --extra-keys metadata.language_info notebooks/*.ipynb

lab: .venv/lab  ## open JupyterLab on start_here.ipynb
	$(BIN)/arena-kit lab

docs: .venv/docs  ## renew the reference from the code and build the documentation as a site
	$(BIN)/python docs/make_reference.py
	$(BIN)/python -m sphinx -q -W -c docs . docs/_build
	@echo docs/_build/index.html

gallery: .venv/base  ## take the pictures of docs/gallery.md anew (needs chromium)
	$(BIN)/python docs/make_gallery.py

bench: .venv/bench  ## time this package against its peers
	-@$(MAKE) --no-print-directory .venv/peers/ready
	@failed=0; for each in bench scale ledger; do $(BIN)/python benchmarks/$$each.py || failed=1; done; exit $$failed

interop: .venv/dev  ## let current versions of other tools write files, and read them
	$(BIN)/python benchmarks/interop.py

clean:  ## remove the environment and caches; records and verdicts stay
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
