# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Errors that tests expect, and data for the calls that raise them."""

import re

import pytest

import torch_distinput as tdi

RANGE = tdi.Dataset.range(6)


def refused(kind, *words):
    """`pytest.raises(kind)` for an error whose text has all `words`, in any order."""
    return pytest.raises(kind, match="(?s)" + "".join(f"(?=.*{re.escape(word)})" for word in words))


def mirrored():
    return tdi.MirroredStrategy(["cpu", "cpu"])
