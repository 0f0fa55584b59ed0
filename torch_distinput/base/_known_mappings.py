# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Classes of mappings that are known by name."""

import sys
from typing import Any

# Classes of mappings that every process can make from their items; collate functions of other libraries return them.
_MAPPINGS = (
    ("collections", "OrderedDict"),
    ("collections", "UserDict"),
    ("transformers.tokenization_utils_base", "BatchEncoding"),
    ("transformers.feature_extraction_utils", "BatchFeature"),
)


def known_mapping(name: str) -> Any:
    """The class of `_MAPPINGS` with this name, where this process has imported it; else None."""
    for module, known in _MAPPINGS:
        if name == f"{module}.{known}":
            return getattr(sys.modules.get(module), known, None)
    return None
