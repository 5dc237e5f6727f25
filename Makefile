# One command an activity; `make help` lists them. Each installs what it needs and is missing (scripts/setup-*.sh).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Of `make run`; none: what run.sh says.
SCENARIO ?=
CARGO := cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/weft
PYTHON := .venv/bin/python
# Tests fail, and do not skip, where a tool is missing; snapshots are compared, not rewritten.
STRICT := CI=true
# Where scripts/setup-deny.sh puts cargo-deny.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## The two commands of the README

.PHONY: run
run: build ## Run shipped scenarios, as root on real packets too (or SCENARIO=...), print their tables and where the reports are
	scripts/run.sh $(RELEASE) $(SCENARIO)

.PHONY: test
test: ## Run every test
	scripts/test.sh

## Building

.PHONY: setup
setup: ## Install all that any command here needs
	scripts/setup.sh

.PHONY: weft
weft: ## Build the program `weft` alone, optimised, into target/release
	scripts/setup-build.sh
	$(CARGO) build --release --locked --package weft-experiment --bin weft

.PHONY: build
build: ## Build the programs `weft`, `weft-directory` and `weft-agent`, optimised, into target/release
	scripts/setup-build.sh
	scripts/setup-node.sh
	$(CARGO) build --release --locked --package weft-experiment --bin weft --package weft-node --bin weft-directory --bin weft-agent

.PHONY: python
python: ## Build the Python package, optimised, into .venv
	scripts/setup-build.sh
	scripts/setup-python.sh
	scripts/build-python.sh --release

.PHONY: docs
docs: ## Build the documentation of the crates into target/doc
	scripts/setup-build.sh
	scripts/setup-node.sh
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --locked --no-deps --workspace --exclude weft-py

## Testing

.PHONY: test-rust
test-rust: ## Unit, property and integration tests of the crates, the report in a headless browser and a real etcd included
	scripts/setup-build.sh
	scripts/setup-node.sh
	scripts/setup-report.sh
	scripts/setup-etcd.sh
	scripts/setup-lab.sh
	scripts/setup-bpf.sh
	$(STRICT) $(CARGO) test --locked --workspace --no-fail-fast

.PHONY: test-scenarios
test-scenarios: ## The quick forms of all scenarios, by the build that the tests use
	scripts/setup-build.sh
	scripts/setup-node.sh
	scripts/setup-etcd.sh
	$(CARGO) test --quiet --locked --workspace --no-run
	$(TARGET)/debug/weft check scenarios

.PHONY: test-python
test-python: ## The Python package, its types and the examples of its documentation
	scripts/setup-build.sh
	scripts/setup-python.sh
	scripts/setup-node.sh
	scripts/build-python.sh
	$(CARGO) test --quiet --locked --workspace --no-run
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest

.PHONY: test-report
test-report: ## Of these, only the report and its scripts
	scripts/setup-build.sh
	scripts/setup-node.sh
	scripts/setup-report.sh
	$(STRICT) $(CARGO) test --locked --workspace --test 'report*'

.PHONY: lint
lint: ## Formatting and lints; warnings are errors
	scripts/setup-build.sh --lint
	scripts/setup-node.sh
	scripts/setup-python.sh
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m ruff check

.PHONY: format
format: ## Format everything
	scripts/setup-build.sh --lint
	scripts/setup-python.sh
	$(CARGO) fmt --all
	$(PYTHON) -m ruff format

.PHONY: deny
deny: ## Licences, bans and sources of the dependencies
	scripts/setup-deny.sh
	$(CARGO) deny --locked check licenses bans sources

.PHONY: advisories
advisories: ## Known vulnerabilities of the dependencies (fetches a database from github.com)
	scripts/setup-deny.sh
	$(CARGO) deny check advisories

## The papers and the speed

.PHONY: check
check: build ## Compare all scenarios, in their quick forms, with the papers
	scripts/setup-etcd.sh
	$(RELEASE) check scenarios

.PHONY: check-full
check-full: build ## The same at the papers' sizes; says beforehand how long it takes
	scripts/setup-etcd.sh
	$(RELEASE) check --full scenarios

.PHONY: bench
bench: build ## Speed and memory of the engines
	$(RELEASE) bench flow
	$(RELEASE) bench packet
	$(RELEASE) bench control

.PHONY: bench-directory
bench-directory: build ## Rates, latencies and faults of the directory, beside the paper's; with etcd
	scripts/setup-etcd.sh
	$(RELEASE) directory bench lookups
	$(RELEASE) directory bench updates
	$(RELEASE) directory bench convergence
	$(RELEASE) directory bench failover

.PHONY: bench-agent
bench-agent: build ## What VL2's headers and NetLord's encapsulation cost on real packets beside plain forwarding; as root
	$(RELEASE) bench agent
	$(RELEASE) bench agent --overlay netlord

.PHONY: bench-simgrid
bench-simgrid: build ## The flow world beside SimGrid, results compared flow by flow (benches/simgrid)
	benches/simgrid/run.sh

.PHONY: clean
clean: ## Remove what was built; what was installed (.venv, .tools) stays
	$(CARGO) clean
	rm -rf results python/weft/_weft*.so .pytest_cache .mypy_cache .ruff_cache
