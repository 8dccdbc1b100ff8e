# Every command a person types. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := service loadtest slo stack bench
export PYTHONUNBUFFERED := 1
# Compiling every import anew would double the seconds of every start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help .venv test test-fast lint up demo batch-table tune bench generate lock lock-peers clean

help: ## list the commands
	@awk -F':.*## ' '/^[a-z.-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv installs in seconds what takes pip a minute; where uv cannot reach an index that pip is configured for, pip does it.
.venv/.runtime: requirements.lock requirements-installer.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv || { echo "cannot make .venv: '$(PYTHON) -m venv' failed; Python >= 3.11 with venv is needed (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python >= 3.11 is needed, .venv has $$($(BIN)/python --version); set PYTHON=..." >&2; rm -rf .venv; exit 1; }
	@echo "installing what Tailboard runs on into .venv ..."
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-installer.lock 2>&1 | grep -v '^WARNING: Location' || true
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock || $(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

.venv/.dev: requirements-dev.lock .venv/.runtime
	@echo "installing what the tests need into .venv ..."
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements-dev.lock || $(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

.venv: .venv/.dev ## set up .venv with everything, tests included

test: .venv/.dev ## the whole suite (sets up what it needs; about three quarters of an hour on two cores)
	@$(BIN)/python -m pytest tests

test-fast: .venv/.dev ## unit and contract tests (about two minutes on two cores)
	@$(BIN)/python -m pytest -q tests/unit tests/contract

lint: .venv/.dev ## ruff, mypy --strict, shellcheck
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/shellcheck .ci/run deploy/docker/*.sh tests/docker/*.sh

up: .venv/.runtime ## the whole stack without Docker; Ctrl-C stops it
	@$(BIN)/python -m stack

demo: .venv/.runtime ## breach, alert, cure, recovery and the ramp, unattended (about 5 min)
	@$(BIN)/python -m stack.demo --out out/demo

batch-table: .venv/.runtime ## what batching buys for the served model, no server involved
	@$(BIN)/python -m bench.batch_table

tune: .venv/.runtime ## the batch and wait that give the most throughput inside the SLO (10 min at most); TUNE="--budget 5m"
	@$(BIN)/python -m loadtest tune --own-service $(TUNE)

bench: .venv/.runtime ## ours beside peers under the same load (about 16 min); PEERS="mosec triton" BENCH="--quick"
	@$(BIN)/python -m bench $(if $(PEERS),--peers "$(PEERS)") $(BENCH)

generate: .venv/.runtime ## rules, rule tests, dashboards and what a cluster takes, from slo.yaml
	@$(BIN)/python -m slo generate

lock: .venv/.runtime ## resolve pyproject.toml into the lock files
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate requirements-installer.in -o requirements-installer.lock

lock-peers: .venv/.runtime ## the same for the environments of `make bench`
	@for peer in bench/peers/*.in; do c="-c requirements.lock"; case $$peer in *triton*) c=;; esac; \
	  $(BIN)/uv pip compile -q --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate $$c $$peer -o $${peer%.in}.lock || exit 1; done

clean: ## remove what was made here (.venv, .tailboard, out)
	@rm -rf .venv .tailboard out
