# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""No test of Ray waits without end, whatever is lost."""

import signal

import pytest

LIMIT = 300  # seconds; a test takes up to 50 on two CPUs, three times that beside ten other jobs


@pytest.fixture(autouse=True)
def _ends_in_time():
    def raised(_signal, _frame):
        raise TimeoutError(f"the test takes more than {LIMIT} s.")

    before = signal.signal(signal.SIGALRM, raised)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
