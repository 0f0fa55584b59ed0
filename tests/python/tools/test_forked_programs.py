# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Programs that tests fork end as those of `python -c` do, and see nothing of each other."""

import subprocess
import sys

import pytest
from forked_programs import ForkedProgram
from processes import is_alive, run_script

PROGRAMS = {
    "end": "print('last')",
    "exit": "import sys; print('last'); sys.exit(3)",
    "error": "1 / 0",
    "killed": "import os, signal; print('lost'); os.kill(os.getpid(), signal.SIGKILL)",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT); signal.pause()",
    "hook": "import atexit; atexit.register(print, 'hook'); print('last')",
    "thread": "import threading; go = threading.Event()\n"
    "threading.Thread(target=lambda: (go.wait(), print('thread'))).start(); print('last'); go.set()",
    "module": "class Last:\n    def __del__(self): print('freed')\nkept = Last(); print('last')",
    "child": "import os, sys; child = os.fork(); print('child' if child == 0 else os.waitpid(child, 0)[1])",
    "surroundings": "import os, sys; print(sys.argv, os.getcwd(), __name__, os.environ['TDI_ONE'])",
    # torch imports ctypes, whose libffi may keep a file open.
    "descriptors": "import ctypes, os; print(sorted(os.listdir('/proc/self/fd')))",
    "signals": "import signal; print(*map(signal.getsignal, (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)))",
}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_a_forked_program_ends_as_one_of_its_own(text, monkeypatch, tmp_path):
    monkeypatch.setenv("TDI_ONE", "1")
    monkeypatch.chdir(tmp_path)
    own = subprocess.run([sys.executable, "-c", text, "a b", "c"], capture_output=True, text=True, timeout=60)
    program = ForkedProgram(text, "a b", "c")
    try:
        out, err = program.communicate(60)
    finally:
        program.close()
    assert (program.returncode, out) == (own.returncode, own.stdout)
    assert err.splitlines()[-1:] == own.stderr.splitlines()[-1:]


def test_programs_run_beside_each_other():
    programs = [ForkedProgram("import signal\nprint('up', flush=True)\nsignal.pause()") for _ in range(3)]
    try:
        assert [program.stdout.readline() for program in programs] == [b"up\n"] * 3
        assert run_script("print('done')").stdout == "done\n"
        assert [program.poll() for program in programs] == [None] * 3
    finally:
        for program in programs:
            program.close()
    assert [program.returncode for program in programs] == [-9] * 3
    assert not any(is_alive(program.pid) for program in programs)


def test_a_program_that_takes_too_long_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        run_script("import time; time.sleep(100)", timeout=0.1)
