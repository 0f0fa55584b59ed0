# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Families of ops, each a base of `Dataset`."""
