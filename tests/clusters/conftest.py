# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Tests whose launcher is not here are skipped with the reason. Reports name launchers and their versions."""

from pathlib import Path

import pytest
from launchers import VERSIONS, Absent

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    here = [item for item in items if item.path.is_relative_to(HERE)]  # not those of the whole run
    names = {item: item.get_closest_marker("launcher").args[0] for item in here}
    found = {name: _found(name) for name in set(names.values())}
    for item, name in names.items():
        version, reason = found[name]
        item.user_properties += [("launcher", name), ("version", version)]
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def _found(name: str) -> tuple[str, str]:
    """The version of a launcher, and why its tests are skipped, one of them empty."""
    try:
        return VERSIONS[name](), ""
    except Absent as absent:
        return "", str(absent)
