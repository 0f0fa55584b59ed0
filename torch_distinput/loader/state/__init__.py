# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Positions of a DataLoader as plain values, and the check of a loaded one."""
