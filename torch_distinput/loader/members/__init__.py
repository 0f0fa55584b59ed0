# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Loaders whose processes come and go: rows are bound to committed steps."""
