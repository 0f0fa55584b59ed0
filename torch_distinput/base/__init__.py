# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What all rooms use: checks of arguments, structures of leaves, types of elements, names of files."""
