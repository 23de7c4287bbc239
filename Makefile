# make demo and make test do all set-up by themselves, in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One thread per process: two processes that both use all cores slow each other down many times.
THREADS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test fuzz lint format docs bench gpu avalanche clean

demo: $(VENV)/.ready
	$(BIN)/transil demo -o demo

test: $(VENV)/.ready
	$(THREADS) $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Thousands of hostile inputs for every command, and a table of what became of them (see SECURITY.md).
fuzz: $(VENV)/.ready
	TRANSIL_FUZZ=all $(THREADS) $(BIN)/python -m pytest -n 3 --dist worksteal tests/fuzz

# The plugin on Avalanche itself, in an environment of its own: it brings torchvision and much else.
AVALANCHE := .venv-avalanche
avalanche: $(AVALANCHE)/.ready
	$(THREADS) $(AVALANCHE)/bin/python -m pytest tests/test_avalanche.py

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready
	$(BIN)/mkdocs build --strict --site-dir site

bench: $(VENV)/.ready
	$(THREADS) $(BIN)/python benchmarks/fit.py
	$(THREADS) $(BIN)/python benchmarks/many.py
	$(THREADS) $(BIN)/python benchmarks/any_fit.py
	$(THREADS) $(BIN)/python benchmarks/adapt.py
	$(THREADS) $(BIN)/python benchmarks/correct.py
	$(THREADS) $(BIN)/python benchmarks/record.py
	$(THREADS) $(BIN)/python benchmarks/serve.py
	$(THREADS) $(BIN)/python benchmarks/data.py
	$(THREADS) $(BIN)/python benchmarks/formula.py
	$(THREADS) $(BIN)/python benchmarks/kill.py
	$(THREADS) $(BIN)/python benchmarks/studies.py

# What only a GPU can show: its tests, speeds, and whether recipes learn what they should.
# GPU_PYTHON has torch for the GPU; DATA is CIFAR-100.
GPU_PYTHON ?= $(BIN)/python
DATA ?= cifar100

gpu:
	PYTHONPATH=src $(GPU_PYTHON) -m pytest tests/test_engine_gpu.py
	PYTHONPATH=src $(GPU_PYTHON) benchmarks/learn.py $(DATA)
	PYTHONPATH=src $(GPU_PYTHON) benchmarks/train.py --seconds 3
	PYTHONPATH=src $(GPU_PYTHON) benchmarks/runs.py

# The constraints pin every version, torch first: left alone, pip may bring another torch with
# gigabytes of CUDA packages; before it pip itself, since that of an old Python has known holes.
# PIP_FLAGS can name another index.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_FLAGS) \
	--constraint constraints.txt

$(VENV)/.ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) torch
	$(INSTALL) --editable '.[dev]'
	touch $@

$(AVALANCHE)/.ready: pyproject.toml constraints.txt
	test -x $(AVALANCHE)/bin/python || $(PYTHON) -m venv $(AVALANCHE)
	$(INSTALL:$(BIN)%=$(AVALANCHE)/bin%) --upgrade pip
	$(INSTALL:$(BIN)%=$(AVALANCHE)/bin%) torch
	$(INSTALL:$(BIN)%=$(AVALANCHE)/bin%) pytest hypothesis --editable '.[cli,train,avalanche]'
	touch $@

clean:
	rm -rf $(VENV) $(AVALANCHE) demo site .pytest_cache .mypy_cache .ruff_cache .hypothesis
