# Every target works in a fresh clone: what it needs is set up first, into .venv and .cache.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
export PYTHONUNBUFFERED := 1

.PHONY: eval test setup check format oracle data parity kills speed overhead store-bench real-model clean

eval: .venv/.ready ## a small leaderboard over the bundled sample tasks
	@$(BIN)/harness data pull bfcl-v3 || echo "The BFCL-v3 wheel could not be pulled: its multi-turn samples are left out." >&2
	$(BIN)/harness eval -b bfcl-v3 -b evalplus -b livecodebench --split sample --sandbox local -a scripted:oracle -a scripted:random -a scripted:nop

test: .venv/.ready oracle
	HARNESS_HOME=.cache/home $(BIN)/harness data pull bfcl-v3
	$(PYTEST) -n 2 --dist loadgroup

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all]"
	touch $@

check: .venv/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: .venv/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

oracle: .venv/.ready ## upstream's own checkers in a venv of their own, for the parity tests
	$(BIN)/python tests/parity/build_oracle.py

parity: oracle ## the long form of the parity proofs
	HARNESS_MUTANTS=50000 HARNESS_MT_MUTANTS=4000 HARNESS_EPISODES=1 HARNESS_LCB=full HARNESS_EVALPLUS=full \
		$(PYTEST) tests/parity --timeout 3600

kills: .venv/.ready ## the long form of the crash proofs
	HARNESS_KILLS=25 HARNESS_STORE_KILLS=256 HARNESS_STORE_FLIPS=300 $(PYTEST) tests/faults --timeout 3600

speed: oracle ## graders beside upstream's, CPU seconds in one run
	HARNESS_HOME=.cache/home $(BIN)/harness data pull bfcl-v3
	HARNESS_HOME=.cache/home $(BIN)/python tests/perf/single_turn_speed.py
	HARNESS_HOME=.cache/home $(BIN)/python tests/perf/multi_turn_speed.py
	HARNESS_HOME=.cache/home $(BIN)/python tests/perf/livecodebench_speed.py
	HARNESS_HOME=.cache/home $(BIN)/python tests/perf/evalplus_speed.py

overhead: .venv/.ready ## what the harness itself costs
	HARNESS_HOME=.cache/home $(BIN)/harness data pull bfcl-v3
	HARNESS_HOME=.cache/home $(BIN)/python tests/perf/overhead.py

real-model: .venv/.ready ## SmolLM2-135M-Instruct plays 40 tasks in process and behind a real server
	OMP_NUM_THREADS=1 HARNESS_REAL_MODEL=40 $(PYTEST) tests/agents/test_real_model.py -s --timeout 7200

store-bench: .venv/.ready
	$(BIN)/python tests/perf/store_bench.py

clean:
	rm -rf .venv .oracle .cache
