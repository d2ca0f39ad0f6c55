# Everything sets itself up: Python 3.11, make and the package registries are all it takes. `make` alone prints what there is.
PYTHON ?= python3.11
ifeq (,$(shell command -v $(PYTHON) 2>/dev/null))
PYTHON := python3
endif
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests start hundreds of commands; each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
# Tests run in so many processes: more than there are cores, since they wait as well as work.
WORKERS ?= 3
# Those of soak wait more.
SOAK_WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help demo test soak marathon busy-bgwriter every-way bounds test-matrix test-spark fuzz bench bench-small check test-extras wheels cases clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python tools/compile_kernels.py
	@touch $@

demo: $(READY) ## a shop on an embedded PostgreSQL, decoded on Spark and mirrored into Delta
	$(BIN)/tailrace demo

test: $(READY) ## the whole suite, but for what needs fetched PostgreSQL builds
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --timeout 600 -m "not matrix and not soak and not marathon"

soak: $(READY) ## tests that wait more than they work, or for a minute
	$(BIN)/python -m pytest -q -n $(SOAK_WORKERS) --dist worksteal --timeout 300 -m "soak and not marathon"

marathon: $(READY) ## what takes a quarter of an hour or more: PostgreSQL's whole regression and subscription suites on all majors (needs apt and perl), 300 kills of a consumer and its server, others' parsers of pgoutput and Debezium's engine on what we make (Go, Rust, Node.js, a JDK and Maven; what they read of recorded logs is in test), walks and damage drawn anew, how kernels are kept, the cases of test and test-matrix that do not run before a change lands
	$(BIN)/python -m pytest -q -m marathon

busy-bgwriter: $(READY) ## the suite on servers that log their running transactions after each write, and not every 15 s: a test that counts on a quiet log fails (needs npm)
	$(BIN)/python tests/busy_bgwriter.py $(MAKE) --no-print-directory test

every-way: $(READY) ## every recorded case, with every plugin, in every way in which a log can come, at so many at once as WORKERS says; it ends with their number
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal tests/test_every_way.py

CHECKED := tests/test_hostile.py tests/catalog tests/decode tests/logicalproto/test_many_at_once.py tests/slots tests/tuples tests/types tests/wal \
	tests/plan/test_message_order.py tests/verify/test_checksums.py tests/expressions/test_filters.py tests/storage/test_index_store.py tests/plugins tests/wire tests/apply/test_matching.py
bounds: $(READY) ## every kernel with its bounds checked (it says how many ran), over damage, crafted records and values, catalogs, and all plugins (their code is kept apart; the first time it is compiled); marathon: over all there is
	met=$$(mktemp -d) && trap 'rm -rf "$$met"' EXIT && \
	NUMBA_BOUNDSCHECK=1 TAILRACE_KERNELS_MET=$$met $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not spark and not matrix and not soak and not marathon" $(CHECKED) && \
	PYTHONPATH=tests $(BIN)/python -m support.kernels_met $$met

test-matrix: $(READY) ## live comparison of text on fetched PostgreSQL builds (of each test a twentieth of the cases, one at least; the others: marathon), ten seconds each of generated workloads and messages, and stores on versitygw (needs npm and Go)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --timeout 300 -m "matrix and not marathon"
	PYTHONPATH=tests $(BIN)/python tests/fuzz_messages.py --seconds 10 --seed 1 & messages=$$!; \
	PYTHONPATH=tests $(BIN)/python tests/fuzz.py --minutes 0.2 --seed 1; texts=$$?; wait $$messages && exit $$texts

test-spark: $(READY) ## what `make test` has of Spark, on the newest one that there is: the lock's is the newest for which there is Delta's own library
	$(BIN)/python tests/newest_spark.py

test-extras: $(READY) ## wheel and source distribution, built in a new environment; each extra alone, from that wheel
	$(BIN)/python tests/extras.py

wheels: $(READY) ## into dist: the source distribution, a wheel for each CPython 3.11 to 3.14 that is here, tried, and one for all others
	$(BIN)/python tools/wheels.py

MINUTES ?= 10
fuzz: $(READY) ## generated workloads on all majors for MINUTES=10, every line compared (needs npm)
	PYTHONPATH=tests $(BIN)/python tests/fuzz.py --minutes $(MINUTES)

bench: $(READY) ## PostgreSQL's walsender and tailrace on the same WAL, streams of tailrace serve, a server's log received beside pg_receivewal, updates of a large table of the lake beside MERGE, an hour of commits to it, from COMMIT until its readers see a row, a transaction of ten million rows, a backlog beside a walsender, a first copy and verify beside psql's copy, and how long the command takes to start (two hours; needs npm)
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/live.py
	$(BIN)/python benchmarks/live.py --latency
	$(BIN)/python benchmarks/lake.py --rows 50000000 --changes 1000000,1000
	$(BIN)/python benchmarks/lake.py --tables 500
	$(BIN)/python benchmarks/lake_hour.py
	$(BIN)/python benchmarks/lake_visible.py --layout changes
	$(BIN)/python benchmarks/lake_visible.py --layout mirror
	$(BIN)/python benchmarks/lake_large.py
	$(BIN)/python benchmarks/lake_backlog.py
	$(BIN)/python benchmarks/first_copy.py --rows 10000000 --runs 3
	$(BIN)/python benchmarks/verify.py --rows 10000000 --runs 3
	$(BIN)/python benchmarks/verify.py --rows 3000000 --runs 3 --subscriber
	$(BIN)/python benchmarks/start.py

bench-small: $(READY) ## the same in twelve minutes
	$(BIN)/python benchmarks/bench.py --scale 0.05 --runs 3
	$(BIN)/python benchmarks/serve.py --rows 200000
	$(BIN)/python benchmarks/live.py --megabytes 200 --decoded 50 --runs 2 --consumers 1,4
	$(BIN)/python benchmarks/live.py --latency --seconds 5
	$(BIN)/python benchmarks/lake.py --rows 2000000 --changes 50000,1000
	$(BIN)/python benchmarks/lake.py --tables 100
	$(BIN)/python benchmarks/lake_hour.py --windows 120
	$(BIN)/python benchmarks/lake_visible.py --layout changes --seconds 10
	$(BIN)/python benchmarks/lake_visible.py --layout mirror --rows 500000 --seconds 10
	$(BIN)/python benchmarks/lake_large.py --rows 2000000 --changes 400000
	$(BIN)/python benchmarks/lake_backlog.py --rows 1000000 --runs 1
	$(BIN)/python benchmarks/first_copy.py --rows 1000000 --runs 1
	$(BIN)/python benchmarks/verify.py --rows 1000000 --runs 1
	$(BIN)/python benchmarks/start.py

check: $(READY) ## ruff (rules and format) and mypy
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check --quiet src tests benchmarks tools
	$(BIN)/mypy

cases: $(READY) ## record the golden cases anew (needs npm; for calls of a plugin in C, apt and a C compiler; for what others' parsers read, Go, Rust and Node.js; for Debezium, Maven)
	$(BIN)/python tests/record_cases.py
	$(BIN)/python tests/record_calls.py
	$(BIN)/python tests/record_readings.py
	$(BIN)/python tests/record_debezium_events.py

clean: ## remove what was set up
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache
