# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Strategies: rows of each global batch to replicas, and values of replicas to one."""
