# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What building fetches by an address is compared with a hash that stands beside the address."""

import re

import pytest
from places import ROOT

SCRIPTS = [
    path
    for path in (
        ROOT / "Makefile",
        ROOT / "CMakeLists.txt",
        ROOT / "setup.py",
        *ROOT.glob("cmake/*"),
        *ROOT.glob("tools/*"),
    )
    if path.is_file()
]
FETCHES = re.compile(
    r"\b(curl|wget|urlretrieve|urlopen|git clone|file\(DOWNLOAD)\b|FetchContent_Declare|ExternalProject_Add"
)
HASH = re.compile(r"\b[0-9a-f]{64}\b")


def problems(text: str) -> list[str]:
    """Why a script's downloads are not checked; empty where it has none, or they are."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    addresses = re.findall(r"https?://[^\s\"')]+\.(?:tar\.\w+|tgz|zip|whl|git)\b", code)
    if not FETCHES.search(code) and not addresses:
        return []
    if "git clone" in code or "GIT_REPOSITORY" in code:
        return ["it takes a repository, which has no hash of its own"]
    missing = len(set(addresses) or {""}) - len(set(HASH.findall(code)))
    return [f"{missing} of its downloads have no SHA-256"] if missing > 0 else []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_downloads_have_hashes(path):
    assert problems(path.read_text()) == []


def test_the_rule_sees_downloads_without_hashes():
    assert problems('set(url "https://example.com/a.tar.gz")\nfile(DOWNLOAD "${url}" a)')
    assert problems("curl -L https://example.com/a.zip > a.zip")
    assert problems("git clone https://example.com/a")
    assert problems("# curl is not used here\necho done") == []
    assert problems(f'set(url "https://example.com/a.tar.gz")\nset(hash {"0" * 64})\nfile(DOWNLOAD "${{url}}" a)') == []
