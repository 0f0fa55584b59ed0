# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A package that does not fit says so at its import; threads inside the library end with the interpreter."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import torch_distinput

MAJOR, MINOR = map(int, torch.__version__.split(".")[:2])


def error_of_import(folder: Path, built_for: str) -> str:
    """The error of a copy of the package that was built for another torch, and whose native module cannot be loaded."""
    package = folder / "torch_distinput"
    not_native = shutil.ignore_patterns("*.so*", "lib", "include", "__pycache__")
    shutil.copytree(Path(torch_distinput.__file__).parent, package, ignore=not_native)
    facts = f'version = "0"\ntorch_version = "{built_for}"\ntbb_interface_version = 0\n'
    (package / "_build.py").write_text(facts)
    (package / "_C.py").write_text('raise ImportError("undefined symbol")\n')
    command = [sys.executable, "-c", "import torch_distinput"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("built_for", [f"{MAJOR}.{MINOR - 1}.3", f"{MAJOR}.{MINOR + 1}.0"])
def test_another_minor_release_of_torch_is_refused_in_one_line(tmp_path: Path, built_for: str):
    error = error_of_import(tmp_path, built_for)
    wanted, here = built_for.rpartition(".")[0], f"{MAJOR}.{MINOR}"
    assert "undefined symbol" not in error
    assert error.partition("\nImportError: ")[2] == (
        f"torch_distinput was built for torch {wanted}, but torch {torch.__version__} is installed: install torch "
        f"{wanted} with `pip install 'torch=={wanted}.*'`, or build torch_distinput for torch {here} with "
        "`pip install --no-build-isolation --no-deps --force-reinstall .` in its source tree.\n"
    )


def test_another_patch_release_of_torch_is_taken(tmp_path: Path):
    error = error_of_import(tmp_path, f"{MAJOR}.{MINOR}.99")
    assert "the native library could not be loaded (undefined symbol)" in error


def test_public_names_are_sorted():
    assert torch_distinput.__all__ == sorted(torch_distinput.__all__)


def test_no_framework_is_imported_with_the_library():
    names = ("accelerate", "datasets", "lightning", "torchdata", "torchmetrics", "torchtitan", "transformers")
    script = (
        "import sys, torch; before = set(sys.modules); import torch_distinput\n"
        f"print(set({names}) & set(sys.modules) - before)"
    )
    path = [str(Path(torch_distinput.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
    )
    assert done.stdout == "set()\n", done.stdout + done.stderr


# Python ends a thread that wants the GIL back during the shutdown. `Slow` lets it come to that: it is deleted late,
# and sleeps without the GIL while the threads' own sleeps end.
PROGRAM = """
import threading, time
import torch, torch_distinput as tdi

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1.5)

inside = threading.Semaphore(0)

def dream(*_):
    inside.release()
    time.sleep(0.3)  # two of them are less than what the shutdown waits for
    return torch.tensor(1)

class Rows(torch.utils.data.Dataset):
    __getitem__ = dream
    def __len__(self):
        return 8

class Kept:
    def __init__(self, value):
        self.value = value
    def __call__(self, x):
        return dream()

numbers = tdi.Dataset.range(8)
one = lambda: (dream() for _ in range(8))
datasets = [
    numbers.map(dream),
    numbers.map(Kept(torch.ones(3)), num_parallel_calls=2),
    numbers.filter(lambda x: bool(dream())),
    tdi.Dataset.from_torch(Rows()).batch(2).prefetch(2),
    tdi.Dataset.from_generator(one, tdi.TensorSpec((), torch.int64)),
    numbers.flat_map(lambda x: numbers.map(dream)),
]
loops = [lambda dataset=dataset: list(dataset) for dataset in datasets]
loops.append(lambda: list(tdi.DataLoader(Rows(), 2)))
loops.append(lambda: list(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(numbers.map(dream).batch(2))))
for loop in loops:
    threading.Thread(target=loop, daemon=True).start()
for _ in loops:
    inside.acquire()
kept = Slow()
print("ends", flush=True)
"""


def test_threads_inside_callables_do_not_crash_the_shutdown():
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "ends\n", "")
