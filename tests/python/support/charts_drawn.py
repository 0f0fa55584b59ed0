# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`as_drawn`: whether a committed chart shows what is drawn now."""

import re

from places import BENCHMARKS


def as_drawn(name: str, drawn: str) -> bool:
    """To the byte where one version of matplotlib drew both; else all words and values, and as many bars."""
    committed = (BENCHMARKS / "results" / name).read_text()
    version = r"Matplotlib v[\d.]+"
    if re.findall(version, committed) == re.findall(version, drawn):
        return committed == drawn
    return all(
        re.findall(part, committed) == re.findall(part, drawn) for part in (r"<text[^>]*>(.*?)</text>", "patch_")
    )
