# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A copy of the source tree, without what was built in it."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def copy_source(folder: Path) -> None:
    """Copies the working tree without ignored files, so that no library that was built in it is copied."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
