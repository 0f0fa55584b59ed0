# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Settings of all Python tests."""

import os
import signal

import torch
from hypothesis import settings

torch.set_num_threads(1)

# A shell's background job ignores Ctrl-C, and so would all processes that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# CI must not depend on luck; `HYPOTHESIS_PROFILE=search` looks for new examples.
settings.register_profile("fixed", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("search", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
