# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""In which order a DataLoader reads rows: samplers, the draws of an epoch, its indices."""
