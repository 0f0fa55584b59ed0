# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A program of the test rig in a process of its own, which obeys commands that come over its standard input.

A command is a line of JSON, followed by as many raw bytes as its "size" says (null: none go along). Its answer is a
line of JSON. The process ends with its input, so also with the process that started it, and when no command has come
for its life.
"""

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ANSWER_LIMIT = 60.0  # seconds


class RigProcess:
    """Runs the module `program` of this folder with `settings`. Several threads may ask."""

    def __init__(self, program: str, settings: Mapping[str, Any], life: float):
        # Without the site's packages, whose import hooks take longer than the rest of the start.
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", program, json.dumps({**settings, "life": life})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        )
        self._lock = threading.Lock()

    def ask(self, command: str, data: bytes | memoryview | None = None, **fields: Any) -> Any:
        """What the program answers. Raises RuntimeError with its words if it refuses."""
        size = None if data is None else len(data)
        line = json.dumps({"command": command, "size": size, "fields": fields}).encode() + b"\n"
        with self._lock:
            self._process.stdin.write(line)
            self._process.stdin.write(data or b"")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], ANSWER_LIMIT)[0]:
                raise TimeoutError(f"{command}: no answer within {ANSWER_LIMIT} s")
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{command}: the process has ended with {self._process.wait(5)}")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(f"{command}: {answer['error']}")
        return answer["value"]

    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """Ends the process. A second call does nothing."""
        self._process.kill()
        self._process.wait(10)
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()


def obey(find: Callable[[str], Callable[..., Any]], life: float) -> None:
    """Runs the commands of standard input until it ends, or none comes for `life` seconds; then ends the process.
    `find` gives a command by its name; it is called with its fields, and with `data` if bytes came along."""
    while select.select([sys.stdin], [], [], life)[0] and (line := sys.stdin.buffer.readline()):
        sys.stdout.write(json.dumps(_answer(find, json.loads(line))) + "\n")
        sys.stdout.flush()
    os._exit(0)


def _answer(find: Callable[[str], Callable[..., Any]], asked: dict) -> dict:
    fields = asked["fields"]
    if asked["size"] is not None:
        fields["data"] = sys.stdin.buffer.read(asked["size"])
    try:
        return {"value": find(asked["command"])(**fields)}
    except (KeyError, TypeError, ValueError, OSError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
