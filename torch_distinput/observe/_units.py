# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Times and sizes as texts."""


def seconds_text(value: float) -> str:
    """`1.5` is "1.5 s", `2e-5` is "20 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return "0 s" if value < 1e-9 else f"{value / 1e-9:.3g} ns"


def bytes_text(value: float) -> str:
    """`84_000` is "84 kB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.4g} TB"
