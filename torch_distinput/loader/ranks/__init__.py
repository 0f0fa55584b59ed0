# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(distributed=...)`: exact rows and equal steps over ranks."""
