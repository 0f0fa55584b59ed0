# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Makes the environment of `make bench-peers`: `install.py FOLDER`; with other packages: `install.py FOLDER PACKAGES`.

It sees the packages of the environment that this program runs in, torch and this library among them, and changes none
of them: what the peers need in other versions is installed beside, and comes first. A system that cannot be installed
is named, and has no figures.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The first pins most.
PACKAGES = (
    "mosaicml-streaming",
    "accelerate",
    "datasets",
    "grain",
    "litdata",
    "mlx-data",
    "pillow",
    "polars",  # which litdata reads Parquet with
    "pyarrow",
    "pydantic",  # which ray[data] needs and does not name
    "ray[data]",
    "spdl",
    "tensorflow-cpu",
    "webdataset",
)


def pip(python: Path, *packages: str) -> bool:
    """Whether pip could install `packages`, for the torch that is there."""
    here = subprocess.check_output([python, "-c", "import torch; print(torch.__version__)"], text=True).strip()
    wheels = ["--no-index", "--find-links", os.environ["WHEELS"]] if os.environ.get("WHEELS") else []
    command = [python, "-m", "pip", "install", "--quiet", *wheels, f"torch=={here}", *packages]
    return subprocess.run(command).returncode == 0


def main() -> None:
    folder, packages = Path(sys.argv[1]), sys.argv[2:] or list(PACKAGES)
    stamp = folder / "installed"
    if stamp.exists() and stamp.read_text().split() == packages:
        return
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    site = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    Path(site.strip(), "beside.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    if not pip(python, *packages):
        for package in packages:
            if not pip(python, package):
                print(f"bench-peers: {package} cannot be installed and has no figures", file=sys.stderr)
    stamp.write_text("\n".join(packages))


if __name__ == "__main__":
    main()
