# Everything a person needs, on a fresh machine with Python 3.10 or newer. `make` alone lists the targets.
# The virtual environment is made on demand and renewed whenever the lock file or pyproject.toml changes.

VENV := .venv
PY := $(VENV)/bin/python
# Test processes; each may start a JVM and a server of its own.
WORKERS := 2
# In the order of the folders: files with few but slow tests would come last otherwise, and one process be left alone.
SHARED := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# Of the examples that `make test` tries a property on, how many times as many `make explore` tries.
TIMES := 10
READY := $(VENV)/.ready
# The tests start Python by the hundred: compiled modules are kept for it, even where the environment says otherwise.
export PYTHONDONTWRITEBYTECODE :=
# Spark needs a JDK: the script finds or installs one, says so on standard error, and prints its home.
WITH_JAVA := JAVA_HOME="$$(scripts/ensure_java.sh)" && export JAVA_HOME &&
# The tests of the report look at it in a browser, which another script finds or installs.
WITH_BROWSER := CHROMIUM="$$(scripts/ensure_browser.sh)" && export CHROMIUM &&
# Those of dashboard and alerts ask a Prometheus.
WITH_PROMETHEUS := PROMETHEUS="$$(scripts/ensure_prometheus.sh)" && export PROMETHEUS &&

# The lake of `make demo`, which the examples of the documentation use.
KEEP := lake

.DEFAULT_GOAL := help
.PHONY: help demo quick test docs lab explore interop bench dist package pythons screens check format lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

demo: $(READY) ## build a small lake in lake/, show its health, compact it through Spark, prove it (KEEP=DIR: elsewhere)
	@$(WITH_JAVA) $(VENV)/bin/iceberg-compact demo --keep "$(KEEP)" --replace

quick: $(READY) ## run the tests that need neither a JVM nor a server
	@ICEBERG_COMPACTION_QUICK=1 $(PY) -m pytest -m "not (interop or lab or spark or server or slow)" -p no:cacheprovider $(SHARED) $(ARGS)

test: $(READY) ## run all tests except lab and interop (ARGS='-k name' selects tests)
	@$(WITH_JAVA) $(WITH_BROWSER) $(WITH_PROMETHEUS) $(PY) -m pytest -m "not (interop or lab)" -p no:cacheprovider $(SHARED) $(ARGS)

docs: $(READY) ## build the documentation into site/, check its links, run its examples
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@$(WITH_JAVA) $(PY) -m pytest -q -p no:cacheprovider tests/e2e/test_docs_site.py tests/e2e/test_docs_examples.py $(ARGS)
	@echo "The documentation is in site/index.html"

lab: $(READY) ## kill runs at every step, make storage and catalog fail, race writers, run random operations
	@$(WITH_JAVA) $(WITH_PROMETHEUS) $(PY) -m pytest -m lab -p no:cacheprovider $(SHARED) $(ARGS)

explore: $(READY) ## run the property tests on new examples, TIMES (10) times as many (SEED=N repeats a run)
	@seed="$${SEED:-$$(date +%s)}"; echo "To repeat this run: make explore SEED=$$seed"; \
	ICEBERG_COMPACTION_EXPLORE=$(TIMES) $(PY) -m pytest -m "hypothesis and not (interop or lab or spark or server)" \
		-p no:cacheprovider $(SHARED) --hypothesis-seed="$$seed" $(ARGS)
	@ICEBERG_COMPACTION_EXPLORE=$(TIMES) $(PY) -m pytest -q -p no:cacheprovider tests/lab/test_resume_lab.py -k bad_weather

interop: $(READY) ## meet Iceberg Java, a Hive metastore and cloud stores (from Maven Central, npm and Go's proxy)
	@$(WITH_JAVA) $(PY) -m pytest -m "interop and not package" -p no:cacheprovider $(SHARED) tests/interop $(ARGS)

bench: $(READY) ## run every benchmark and write bench/results/*.json (ARGS=--quick for a short run)
	@$(WITH_JAVA) $(PY) -m bench.run $(ARGS)

dist: $(READY) ## build the wheel and the source archive into dist/
	@rm -rf dist && $(PY) -m hatchling build -d dist

package: $(READY) ## install the wheel into environments of its own, alone and with each extra (package index, minutes)
	@$(PY) -m pytest -m package -p no:cacheprovider tests/interop $(ARGS)

pythons: ## run the unit tests on every Python from 3.10 to 3.13 that is here (minutes)
	@scripts/try_pythons.sh

screens: $(READY) ## store the screens of the command line anew (tests/e2e/screens); look at the diff
	@ICEBERG_COMPACTION_SCREENS=write $(PY) -m pytest -q -p no:cacheprovider tests/e2e/test_screens.py $(ARGS)

check: $(READY) ## check formatting, lint, types, import contracts, spelling
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports
	@$(VENV)/bin/codespell

format: $(READY) ## format the code and apply safe lint fixes
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

lock: ## update the lock files from pyproject.toml (needs uv on the PATH)
	@scripts/lock.sh

clean: ## remove the virtual environment, caches and build results
	rm -rf $(VENV) dist artifacts site spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock requirements-build.lock pyproject.toml scripts/make_venv.sh
	@scripts/make_venv.sh $(VENV)
	@touch $@
