# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Where the installed package lies, and how programs are built against it."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# A fixed folder, so that a compiler cache recognises the files of the last run.
WORK = ROOT / "build" / "install-test"
TOOLS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def run(*command: object, timeout: float, env: dict[str, str] | None = None, cwd: Path = WORK) -> str:
    """The output of the command; a failure shows all of it."""
    environment = {**os.environ, "PATH": TOOLS, **(env or {})}
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        timeout=timeout,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}"
    return result.stdout


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return str(probe.getsockname()[1])


def run_together(commands: list[list[object]], environments: list[dict[str, str]] | None = None) -> list[str]:
    """The output of each of several programs that run side by side; `environments`: what each has besides."""
    started = [
        subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, own in zip(commands, environments or [{}] * len(commands))
    ]
    try:
        outputs = [process.communicate(timeout=60)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), outputs
    return outputs


def library_of(prefix: Path) -> Path:
    """The installed library, named by its compatible releases: `libtorch_distinput.so.1.2`."""
    (library,) = (prefix / "lib").glob("libtorch_distinput.so.*")
    assert re.fullmatch(r"libtorch_distinput\.so\.\d+\.\d+", library.name)
    return library


def build(project: str, prefix: Path, source: Path | None = None, definitions: dict[str, object] | None = None) -> Path:
    """Configures and builds the CMake project `source`, else the folder `project` beside this file."""
    folder = WORK / project
    generator = ["-G", "Ninja"] if shutil.which("ninja", path=TOOLS) else []
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    own = [f"-D{name}={value}" for name, value in (definitions or {}).items()]
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", *generator, *launcher, *own]
    run("cmake", "-S", source or HERE / project, "-B", folder, *options, timeout=120)
    run("cmake", "--build", folder, "--parallel", os.environ.get("MAX_JOBS", str(os.cpu_count())), timeout=900)
    return folder
