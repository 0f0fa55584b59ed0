# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What datasets and loaders report: counters, explanations, traces."""
