# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Data in object stores: how they are asked, with whose credentials, and through which file system."""
