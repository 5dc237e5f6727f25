# One command an activity; `make help` lists them. Each installs what it needs and is missing (scripts/setup-*.sh).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Of `make run`; none: those that run.sh names.
SCENARIO ?=
# Of `make install`.
PREFIX ?= /usr/local
DESTDIR ?=
# Targets that `make test` makes beside the tests.
BESIDE ?=
CARGO := cargo
# What builds the crates' tests: with LINT_TESTS, which .ci/run sets, Clippy's driver, a rustc that lints what it compiles, for next to nothing: `make lint` compiles
# all crates once more. Not by default, since cargo builds the workspace again for another compiler.
LINTED := $(if $(LINT_TESTS),RUSTC_WORKSPACE_WRAPPER=$(shell rustc --print sysroot)/bin/clippy-driver)
TARGET := $(or $(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release/weft
PYTHON := .venv/bin/python
# Tests fail, and do not skip, where a tool is missing; snapshots are compared, not rewritten.
STRICT := CI=true
# Tests of labs and daemons wait more than they compute.
TEST_THREADS := $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
NEXTEST = $(STRICT) $(LINTED) $(CARGO) nextest run --locked --workspace --test-threads $(TEST_THREADS)
# Crates whose tests only compute: whatever the processors have to do besides, they pass.
COMPUTING := package(weft-control) | package(weft-fabric) | package(weft-sim)
# Where scripts/setup-deny.sh and setup-nextest.sh put what they install.
export PATH := $(CURDIR)/.tools/bin:$(PATH)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

## The two commands of the README

.PHONY: run
run: ## Run shipped scenarios, as root on real packets too (or SCENARIO=...), print their tables and where the reports are
	scripts/run.sh $(SCENARIO)

.PHONY: test
test: ## Run every test
	scripts/test.sh $(BESIDE)

## Building

.PHONY: setup
setup: ## Install all that any command here needs
	scripts/setup.sh

.PHONY: weft
weft: ## Build the program `weft` alone, optimised, into target/release
	scripts/setup-build.sh
	$(CARGO) build --release --locked --package weft-experiment --bin weft

.PHONY: build
build: ## Build `weft` and the daemons, optimised, into target/release
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	$(CARGO) build --release --locked --package weft-experiment --package weft-directory --package weft-agent --package weft-scheduler --package weft-planner --bins

.PHONY: python
python: ## Build the Python package, optimised, into .venv
	scripts/setup-build.sh
	scripts/setup-python.sh
	scripts/build-python.sh --release

.PHONY: docs
docs: ## Build the documentation of the crates into target/doc
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(if $(LINT_TESTS),RUSTDOC=$(CURDIR)/scripts/rustdoc.sh $(LINTED) $(CARGO) test --quiet --doc,$(CARGO) doc --no-deps) --locked --workspace --exclude weft-py

.PHONY: site
site: ## Build the site from docs/ into target/site; broken links are errors
	scripts/setup-site.sh
	NO_MKDOCS_2_WARNING=1 .tools/site/bin/mkdocs build --strict

## Installing

.PHONY: install
install: build ## Install the programs, manual pages, completions, systemd units and examples below PREFIX (/usr/local)
	scripts/install.sh $(TARGET)/release $(PREFIX) $(DESTDIR)

.PHONY: package
package: ## Make what is shipped, in target/package: a static program, a Debian package, a Python wheel
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/package.sh

.PHONY: test-package
test-package: ## Install each package where nothing else of Weft is, and use it there (as root, after make package)
	scripts/test-package.sh

## Testing

.PHONY: build-tests
build-tests: build-rust-tests ## Build all that the tests run: the crates' tests, the programs, the Python package
	scripts/setup-python.sh
	$(LINTED) scripts/build-python.sh

.PHONY: build-rust-tests
build-rust-tests: ## Of these, only the crates' tests and the programs
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	$(LINTED) $(CARGO) test --quiet --locked --workspace --no-run $(if $(LINT_TESTS),--all-targets)

.PHONY: test-rust
test-rust: test-daemons test-computing ## Unit, property and integration tests of the crates

.PHONY: test-daemons
test-daemons: ## Of these, those of labs, daemons and commands, with the report in a headless browser and a real etcd
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/setup-report.sh
	scripts/setup-etcd.sh
	scripts/setup-lab.sh
	scripts/setup-bpf.sh
	scripts/setup-nextest.sh
	$(NEXTEST) -E 'not ($(COMPUTING))'

.PHONY: test-computing
test-computing: ## Of these, those that only compute (some decode packets with tshark), and the examples of the documentation
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/setup-capture.sh
	scripts/setup-nextest.sh
	$(NEXTEST) -E '$(COMPUTING)'
	$(STRICT) $(LINTED) $(CARGO) test --quiet --locked --workspace --doc

.PHONY: test-deep
test-deep: ## The same with ten times as many cases, 100,000 agents and 2,000 seeds in the simulated directory, ten minutes of faults in real ones
	NEXTEST_PROFILE=deep WEFT_HERD_AGENTS=100000 WEFT_SEEDS=2000 WEFT_NEMESIS_S=600 PROPTEST_CASES=2560 $(MAKE) test-rust

.PHONY: nemesis
nemesis: ## Random faults in a real directory and etcd for MINUTES (60), as root; SEED=... for the same ones again
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/setup-etcd.sh
	scripts/setup-lab.sh
	$(STRICT) WEFT_NEMESIS_S=$$((60 * $(or $(MINUTES),60))) $(if $(SEED),WEFT_NEMESIS_SEED=$(SEED)) $(CARGO) test --quiet --locked --workspace --test nemesis -- --nocapture faults

.PHONY: soak
soak: ## Random faults in a lab of 40 hosts with VL2 for MINUTES (60), as root; SEED=... for the same ones again
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/setup-etcd.sh
	scripts/setup-lab.sh
	scripts/setup-bpf.sh
	$(STRICT) WEFT_SOAK_S=$$((60 * $(or $(MINUTES),60))) $(if $(SEED),WEFT_SOAK_SEED=$(SEED)) $(CARGO) test --quiet --locked --workspace --test soak -- --nocapture faults

.PHONY: fuzz
fuzz: ## Fuzz each reader of outside bytes for SECONDS (60)
	scripts/fuzz.sh $(or $(SECONDS),60) $(TARGETS)

.PHONY: test-scenarios
test-scenarios: test-simulations test-labs ## The quick forms of all scenarios

.PHONY: test-simulations
test-simulations: ## Of these, only the scenarios that are simulated, by programs whose engines are optimised as `make run` has them
	scripts/setup-build.sh
	$(CARGO) build --quiet --profile quick --locked --package weft-experiment --package weft-planner --bins
	$(TARGET)/quick/weft check $$(scripts/scenarios.sh simulations)

.PHONY: test-labs
test-labs: test-labs-1 test-labs-2 test-labs-3 ## Of these, only the scenarios with runs in the lab, by the build that the tests use

# scripts/scenarios.sh has the parts.
.PHONY: test-labs-1 test-labs-2 test-labs-3
test-labs-1 test-labs-2 test-labs-3: test-labs-%: build-tests
	scripts/setup-etcd.sh
	scripts/setup-lab.sh
	$(TARGET)/debug/weft check $$(scripts/scenarios.sh labs $*)

.PHONY: test-python
test-python: build-tests ## The Python package, its types and the examples of its documentation
	$(PYTHON) -m mypy
	$(PYTHON) -m pytest --durations 5

.PHONY: test-report
test-report: ## Of these, only the report and its scripts
	scripts/setup-build.sh
	scripts/setup-daemons.sh
	scripts/setup-report.sh
	$(STRICT) $(CARGO) test --locked --workspace --test 'report*'

.PHONY: lint
lint: lint-sources check-client ## Formatting and lints; warnings are errors
	scripts/setup-daemons.sh
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: check-client
check-client: ## Of these, only that the directory's client compiles without the server and its stores
	scripts/setup-build.sh
	$(CARGO) check --locked --package weft-directory --no-default-features --lib

.PHONY: lint-sources
lint-sources: ## Of these, only what compiles nothing
	scripts/setup-build.sh --lint
	scripts/setup-python.sh
	$(CARGO) fmt --all --check
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
bench-directory: build ## Rates, latencies and faults of the directory, compared with the paper; with etcd
	scripts/setup-etcd.sh
	$(RELEASE) directory bench lookups
	$(RELEASE) directory bench updates
	$(RELEASE) directory bench convergence
	$(RELEASE) directory bench failover

.PHONY: bench-agent
bench-agent: build ## What VL2's headers and NetLord's encapsulation cost on real packets beside plain forwarding; as root
	$(RELEASE) bench agent

.PHONY: bench-simgrid
bench-simgrid: build ## The flow world beside SimGrid, results compared flow by flow (benches/simgrid)
	benches/simgrid/run.sh

.PHONY: bench-netgraph
bench-netgraph: ## Maximum flows and cuts beside NetGraph, results compared (benches/netgraph)
	benches/netgraph/run.sh

.PHONY: bench-directory-peers
bench-directory-peers: ## The directory beside Redis, Knot and etcd, each with its own load generator (benches/directory-peers)
	benches/directory-peers/run.sh

.PHONY: clean
clean: ## Remove what was built; what was installed (.venv, .tools) stays
	$(CARGO) clean
	rm -rf results python/weft/_weft*.so .pytest_cache .mypy_cache .ruff_cache
