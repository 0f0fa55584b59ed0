# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows made in processes elsewhere: engines, and the pool that asks their workers."""
