# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of all Python tests."""

import importlib
import os
import signal

import torch
from hypothesis import settings

torch.set_num_threads(1)

# A background job of a shell ignores Ctrl-C, and so would the processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Examples are fixed, so that CI gives the same result each time; `HYPOTHESIS_PROFILE=search` looks for new ones.
settings.register_profile("fixed", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Runs the tests of DataLoader's workers over torch's pool instead of this library's.
if os.environ.get("TDI_TEST_POOL") == "torch":
    paths = importlib.import_module("torch_distinput.loader.paths")
    paths.why_torchs_pool = lambda loader: "the tests ask for it"
