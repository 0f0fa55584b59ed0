# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Dataset`, and those whose rows lie in files."""
