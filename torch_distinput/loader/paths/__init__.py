# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The ways in which a DataLoader of one process makes batches, and the choice between them."""
