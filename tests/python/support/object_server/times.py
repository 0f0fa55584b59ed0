# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Times as stores write them."""

from datetime import datetime, timezone


def iso_time(seconds: float) -> str:
    """2026-01-31T23:59:59.000Z"""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def from_iso_time(text: str) -> float:
    """Seconds since 1970. Raises ValueError."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
