# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The drawings of a report, as SVG."""

from collections.abc import Sequence
from html import escape
from typing import Any

COLORS = {
    "next": "#9aa5b1",
    "wait": "#e8590c",
    "read": "#1971c2",
    "build": "#2f9e44",
    "python": "#f2b705",
    "copy": "#862e9c",
}
_WIDTH, _LEFT, _LANE = 1000, 130, 26
_SLOTS = 1200  # places in a thread's line; of several spans in one place, the longest is drawn


def key() -> str:
    """What the colours mean."""
    return '<p class="key">' + "".join(f'<span style="background:{c}"></span>{n}' for n, c in COLORS.items()) + "</p>"


def timeline(events: Sequence[dict[str, Any]]) -> str:
    """A line for each thread, with its spans; inner ones lie over the outer ones."""
    spans = [event for event in events if event.get("ph") == "X"]
    if not spans:
        return "<p>No span was recorded.</p>"
    names = {event["tid"]: event["args"]["name"] for event in events if event.get("ph") == "M"}
    end = max(span["ts"] + span["dur"] for span in spans)
    scale = (_WIDTH - _LEFT) / max(end, 1e-9)
    drawn = []
    threads = sorted({span["tid"] for span in spans}, key=lambda thread: (names.get(thread, ""), thread))
    for lane, thread in enumerate(threads):
        top = lane * _LANE
        drawn.append(f'<text x="0" y="{top + 17}" font-size="13">{escape(names.get(thread, str(thread)))}</text>')
        for span in visible([span for span in spans if span["tid"] == thread], end):
            x, width = _LEFT + span["ts"] * scale, max(span["dur"] * scale, 0.5)
            drawn.append(
                f'<rect x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{_LANE - 6}" '
                f'fill="{COLORS.get(span["name"], "#555")}"><title>{escape(span["name"])} {span["dur"]:.0f} µs</title>'
                "</rect>"
            )
    height = len(threads) * _LANE
    drawn.append(f'<text x="{_LEFT}" y="{height + 14}" font-size="12">0</text>')
    drawn.append(f'<text x="{_WIDTH}" y="{height + 14}" font-size="12" text-anchor="end">{end / 1000:.1f} ms</text>')
    return _svg(height + 20, drawn)


def visible(spans: list[dict[str, Any]], end: float) -> list[dict[str, Any]]:
    """The spans of one thread to draw, outer ones first: for each name and place, the longest."""
    kept: dict[tuple[str, int], dict[str, Any]] = {}
    for span in spans:
        place = (span["name"], int(span["ts"] / max(end, 1e-9) * _SLOTS))
        if place not in kept or kept[place]["dur"] < span["dur"]:
            kept[place] = span
    return sorted(kept.values(), key=lambda span: (-span["dur"], span["ts"]))


def occupancy(events: Sequence[dict[str, Any]]) -> str:
    """Items ready in the queues over time, as a share of their room; empty where nothing was read ahead."""
    samples = [event for event in events if event.get("ph") == "C" and event["args"]["room"] > 0]
    if not samples:
        return ""
    end = max(max(sample["ts"] for sample in samples), 1e-9)
    places: dict[int, list[float]] = {}
    for sample in samples:
        share = min(max(sample["args"]["ready"] / sample["args"]["room"], 0.0), 1.0)
        places.setdefault(int(sample["ts"] / end * (_WIDTH - _LEFT) / 2), []).append(share)
    line = " ".join(
        f"{_LEFT + 2 * place},{84 - 80 * sum(shares) / len(shares):.1f}" for place, shares in sorted(places.items())
    )
    drawn = [
        f'<text x="{_LEFT - 8}" y="12" font-size="12" text-anchor="end">full</text>',
        f'<text x="{_LEFT - 8}" y="86" font-size="12" text-anchor="end">empty</text>',
        f'<line x1="{_LEFT}" y1="84" x2="{_WIDTH}" y2="84" stroke="#999"/>',
        f'<polyline points="{line}" fill="none" stroke="{COLORS["build"]}" stroke-width="1.5"/>',
    ]
    return _svg(92, drawn)


def waits(histogram: Sequence[int]) -> str:
    """A bar for each entry of `Stats.wait_histogram`."""
    most = max(max(histogram), 1)
    width = (_WIDTH - _LEFT) / len(histogram)
    drawn = []
    for entry, count in enumerate(histogram):
        x, height = _LEFT + entry * width, 80 * count / most
        drawn.append(
            f'<rect x="{x + 1:.1f}" y="{84 - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
            f'fill="{COLORS["wait"]}"><title>{count}</title></rect>'
        )
        if entry % 4 == 0:
            drawn.append(f'<text x="{x:.1f}" y="98" font-size="11">{_time(entry)}</text>')
    return _svg(104, drawn)


def _time(entry: int) -> str:
    micros = 0 if entry == 0 else 2 ** (entry - 1)
    if micros < 1000:
        return f"{micros} µs"
    return f"{micros / 1000:.3g} ms" if micros < 1_000_000 else f"{micros / 1e6:.3g} s"


def _svg(height: int, drawn: list[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {height}" role="img">' + "".join(drawn) + "</svg>"
