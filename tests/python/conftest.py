# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of all Python tests."""

import gc
import os
import signal

import pools
import pytest
import torch
from hypothesis import settings

import torch_distinput as tdi

torch.set_num_threads(1)

# Tests read what they have written: no other process answers from its memory. Those of sharing name a folder.
os.environ["TORCH_DISTINPUT_HOST_SHARE"] = ""

# A background job of a shell ignores Ctrl-C, and so would the processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are fixed, so that CI gives the same result each time; `HYPOTHESIS_PROFILE=search` looks for new ones.
settings.register_profile("fixed", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_collection_finish():
    # Many tests collect garbage: theirs, not that among the objects of all modules, which takes 0.2 s.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def only_new_garbage():
    """As above, with what tests before these have imported: for tests that collect garbage a hundred times."""
    gc.collect()
    gc.freeze()


def pytest_generate_tests(metafunc):
    mark = metafunc.definition.get_closest_marker("both_pools")
    if mark is not None:
        own, torchs = pools.POOLS
        if mark.kwargs.get("slow"):
            torchs = pytest.param(torchs, marks=pytest.mark.slow)
        metafunc.parametrize("_pool", [own, torchs], indirect=True)


@pytest.fixture(autouse=True)
def _pool(request):
    with pools.running_over(getattr(request, "param", pools.POOLS[0])):
        yield


@pytest.fixture
def two():
    """Two replicas on the CPU."""
    return tdi.MirroredStrategy(["cpu", "cpu"])
