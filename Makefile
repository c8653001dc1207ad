# Development of the collection: `make help`. Environments come from tests/env/, everything built goes to .build/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

VENV := $(CURDIR)/.build/venv
STAGES := lint unit integration faults-telling e2e floor
# What a recipe below calls by name is the clone's own.
with = PATH="$(VENV)/$(1)/bin:$$PATH"

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup env-run env-tools env-floor demo-env
setup: ## Make the environments for running, linting and testing
	@tests/env/venv.sh run tools floor

env-run env-tools env-floor: env-%:
	@tests/env/venv.sh $*

.PHONY: env-parsers
env-parsers: ## Make what tests read command lines with: both routers, and SGLang's source
	@tests/env/parsers.sh

.PHONY: env-caches
env-caches: ## Make the cache services that tests deploy: LMCache's server, and Mooncake's master with its client
	@tests/env/caches.sh

# First: it says what is missing before anything is fetched.
demo-env:
	@examples/demo/setup.sh
	@tests/env/venv.sh run

.PHONY: demo demo-down
demo: demo-env ## Deploy a real 1P1D group on this machine, ask it something, and prove that the KV cache moved
	@$(call with,run) examples/demo/run.sh

demo-down: env-run ## Remove what `make demo` deployed
	@$(call with,run) examples/demo/run.sh down

.PHONY: test test-lint test-unit test-integration test-faults-telling test-e2e test-floor test-faults
test: env-tools ## Run all stages, the quick ones first, and count their tests in one line
	@$(VENV)/tools/bin/python tests/env/stages.py $(STAGES)

test-lint: env-tools ## Run the linters (ARGS="-k mypy" for one)
	@tests/env/pytest.sh lint tools tests/env -n 2 --dist worksteal -v $(ARGS)

test-unit: env-tools ## Test the rules and the plugins, nothing else running
	@tests/env/pytest.sh unit tools tests/unit -n 2 $(ARGS)

test-integration: env-tools demo-env ## Test playbooks and modules with real processes, no engine
	@tests/env/parsers.sh || echo "tests that need what is missing are skipped" >&2
	@tests/env/caches.sh || echo "tests that need what is missing are skipped" >&2
	@tests/env/pytest.sh integration tools tests/integration -m "not faults" -n 2 $(ARGS)

test-faults-telling: env-tools ## Carry out the most telling rows of the fault table
	@tests/env/pytest.sh faults-telling tools tests/faults -m telling -n 2 $(ARGS)

test-e2e: env-tools demo-env ## Test with a real engine and a real router
	@tests/env/pytest.sh e2e tools tests/e2e -m "not faults" -n 2 $(ARGS)

test-floor: env-floor ## Test on the oldest Ansible that the collection promises
	@tests/env/pytest.sh floor floor tests/unit tests/integration -m "not faults and (floor or not integration)" -n 2 $(ARGS)

test-faults: env-tools demo-env ## Kill, freeze and cut things on purpose (long; not part of `make test`)
	@PD_WALKS=2000 tests/env/pytest.sh histories tools tests/unit/test_histories.py tests/unit/test_rollout_histories.py
	@tests/env/pytest.sh faults tools tests/ -m faults -n 2 $(ARGS)

.PHONY: test-awx
test-awx: env-tools ## Run the example's job templates on a real AWX (needs root; PD_AWX_SOURCE names its source, the first time)
	@tests/awx/setup.sh
	@tests/env/pytest.sh awx tools tests/awx -v --durations=0 --durations-min=1 $(ARGS)

.PHONY: test-kubernetes
test-kubernetes: env-tools ## Run groups on a real control plane of Kubernetes, which is built from Debian's sources the first time (needs root)
	@tests/kube/build.sh
	@tests/env/pytest.sh kubernetes tools tests/kube -v --durations=0 --durations-min=1 $(ARGS)

.PHONY: fuzz
fuzz: env-tools ## Throw odd inputs at all that comes in from outside (FUZZ_MINUTES=10; WORDS="logs metrics" for some)
	@cd tests && PYTHONPATH="$(CURDIR)/.build/collections" $(VENV)/tools/bin/python -m fuzz $(WORDS)

.PHONY: molecule
molecule: env-tools ## Run the scenarios of molecule/ on hosts of this machine (SCENARIO=systemd for one; needs root)
	@$(call with,tools) MOLECULE_PROJECT_DIRECTORY=$(CURDIR) molecule test $(if $(SCENARIO),-s $(SCENARIO),--all)

.PHONY: bench
bench: env-tools ## Measure how runs scale, and what clients see of a scale and of a restart (WORDS="life" for some)
	@$(call with,tools) tests/bench/run.sh $(WORDS)

.PHONY: clean
clean: ## Remove what was built in this clone; the cached environments stay
	rm -rf .build .ansible .mypy_cache .pytest_cache .ruff_cache .hypothesis tests/output inferops-pd-*.tar.gz
