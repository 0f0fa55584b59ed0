#!/usr/bin/env bash
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Makes the environment that the Makefile works in: what building and the examples need, and with `tools` as
# its argument what tests and `make lint` need besides. Called by `make setup` and `make tools`, which pass the
# variables described there: PYTHON VENV TORCH_VERSION TORCH_INDEX_URL SYSTEM_SITE WHEELS LOCK. Running it
# again installs only what is missing.
set -euo pipefail
what=${1:-build}

fail() { echo "setup: $*" >&2; exit 1; }

# --- system packages, where this user may install them ------------------------------------------
apt_install() {
  [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null || return 1
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$@" > /dev/null 2>&1 ||
    { apt-get update > /dev/null && apt-get install -y --no-install-recommends "$@" > /dev/null; }
}

have_header() { echo "#include <$1>" | g++ -std=c++20 -E -x c++ - > /dev/null 2>&1; }

command -v "$PYTHON" > /dev/null || fail "'$PYTHON' was not found; name a Python 3.10+ with PYTHON=..."
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  fail "$("$PYTHON" --version) is too old; name a Python 3.10+ with PYTHON=..."
command -v g++ > /dev/null || fail "g++ was not found; install a C++20 compiler (g++ 11 or newer)"

"$PYTHON" -c 'import ensurepip, os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2> /dev/null ||
  apt_install python3-venv python3-dev ||
  fail "'$PYTHON' lacks venv or Python.h; install your system's python3-venv and python3-dev"

if [ "$what" = tools ]; then
  { have_header gtest/gtest.h && have_header benchmark/benchmark.h; } ||
    apt_install libgtest-dev libbenchmark-dev ||
    echo "setup: GoogleTest or Google Benchmark is not installed (libgtest-dev, libbenchmark-dev)" >&2
fi

# --- virtual environment -------------------------------------------------------------------------
python="$VENV/bin/python"
if [ ! -x "$python" ]; then
  "$PYTHON" -m venv "$VENV"
  if [ -n "$SYSTEM_SITE" ]; then
    # --system-site-packages would skip PYTHON's own packages where PYTHON is a virtual environment.
    # An old setuptools installed by venv would hide the one of PYTHON.
    "$python" -m pip uninstall --quiet --yes setuptools
    "$PYTHON" -c 'import site; print(*site.getsitepackages(), site.getusersitepackages(), sep="\n")' \
      > "$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/system_site.pth"
  fi
fi

# --- Python packages -----------------------------------------------------------------------------
# Prints those of the given requirements that are not met. With SYSTEM_SITE, torch may have any version.
missing() {
  "$python" - "$@" <<'PY'
import importlib.metadata, os, shutil, sys
from pip._vendor.packaging.requirements import Requirement
for text in sys.argv[1:]:
    wanted = Requirement(text)
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        if wanted.name not in ("cmake", "ninja") or not shutil.which(wanted.name):
            print(text)
        continue
    any_version = wanted.name == "torch" and os.environ["SYSTEM_SITE"]
    if not any_version and not wanted.specifier.contains(found, prereleases=True):
        print(text)
PY
}

# Python compiles the modules that are imported; to compile all of them takes as long as to unpack them.
pip_install() {
  local wanted
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  [ -z "$LOCK" ] || fail "$LOCK has no hashes of what is needed: $wanted"
  # shellcheck disable=SC2086
  "$python" -m pip install --no-compile --no-warn-conflicts ${WHEELS:+--no-index --find-links "$WHEELS"} $wanted
}

if [ -n "$LOCK" ]; then
  "$python" -m pip install --no-compile --no-warn-conflicts --require-hashes ${WHEELS:+--no-index --find-links "$WHEELS"} \
    -r "$LOCK"
fi

# Images are decoded where the libraries are there; without them the ops say what to install.
install_decoders() {
  { have_header jpeglib.h && have_header png.h && have_header webp/decode.h; } ||
    apt_install libturbojpeg0-dev libpng-dev libwebp-dev ||
    echo "setup: libturbojpeg0-dev, libpng-dev and libwebp-dev are missing; images cannot be decoded" >&2
}

install_torch() {
  if [ -n "$TORCH_INDEX_URL" ]; then
    PIP_INDEX_URL="$TORCH_INDEX_URL" pip_install "torch==$TORCH_VERSION"
  fi
  pip_install "torch==$TORCH_VERSION" "setuptools>=77"  # setuptools: some versions of torch need it too
}

# torch takes as long as all others, and shares no package with them. Both jobs end with this script.
set -m
install_decoders & decoders=$!
install_torch & torch=$!
set +m
trap 'kill -- "-$decoders" "-$torch" 2> /dev/null || :' EXIT
export PIP_PROGRESS_BAR=off  # torch's is shown

pip_install numpy wheel cmake ninja
[ -n "${TBB_DIR:-}" ] || pip_install tbb-devel || have_header oneapi/tbb/version.h ||
  fail "oneTBB could not be installed; hand over its wheels with WHEELS=folder, or install libtbb-dev"
if [ "$what" = tools ]; then
  pip_install pytest
  # Those of `make lint` are pinned: another version formats, and finds, something else.
  optional=(hypothesis matplotlib pillow pytest-xdist clang-format==23.1.5 clang-tidy==23.1.4 mypy==2.4.1 ruff==0.17.6)
else
  optional=(scikit-learn tqdm)  # the first example shows digits, and progress
fi
if [ -z "$WHEELS" ]; then
  pip_install "${optional[@]}"
else
  for package in "${optional[@]}"; do
    pip_install "$package" || echo "setup: $package is not in $WHEELS; what needs it will not run" >&2
  done
fi
wait "$decoders" "$torch" || fail "torch $TORCH_VERSION could not be installed"
trap - EXIT
# Keeps what compiling torch's modules has made.
env -u PYTHONDONTWRITEBYTECODE "$python" -c 'import torch; print(f"setup: torch {torch.__version__} in {torch.__path__[0]}")'
