# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Rows of Parquet, CSV and JSON-lines files, and of Arrow tables, on their way to native columns."""
