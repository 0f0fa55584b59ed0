# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The goals of the memory benchmark, and its tables."""

COLUMNS = (
    # heading, width, key, format, scale
    ("us/batch", 9, "us_per_batch", ".1f", 1),
    ("spread", 7, "spread", ".0%", 1),
    ("Mrows/s", 8, "rows_per_second", ".3f", 1e-6),
    ("CPU us", 9, "cpu_us_per_batch", ".1f", 1),
    ("of limit", 8, "of_limit", ".2f", 1),
    ("first ms", 8, "first_batch_ms", ".2f", 1),
    ("exposed us", 10, "exposed_us", ".1f", 1),
    ("+-", 6, "exposed_noise_us", ".1f", 1),
    ("of load", 7, "exposed_share", ".0%", 1),
    ("in next us", 10, "in_next_us", ".1f", 1),
    ("its CPU us", 10, "working_cpu_us", ".1f", 1),
)


def goals(works: list[dict], shuffle: dict[str, float]) -> list[dict]:
    """The goals and the measured values."""
    found = []

    def goal(what: str, value: float, *, least: float | None = None, most: float | None = None) -> None:
        reached = value >= least if least is not None else value <= most
        wanted = f">= {least:g}" if least is not None else f"<= {most:g}"
        found.append({"goal": what, "wanted": wanted, "measured": round(value, 4), "reached": reached})

    for work in works:
        name, series = work["name"], work["series"]
        own = series["torch_distinput"]
        if name != "images":
            for rival, least in (("torch batched", 2.5), ("torch 0 workers", 20)):
                times = series[rival]["us_per_batch"] / own["us_per_batch"]
                goal(f"{name}: times as fast as {rival}", times, least=least)
        if name == "rows_20":
            goal(f"{name}: us per batch", own["us_per_batch"], most=20)
        else:
            goal(f"{name}: of the limit", own["of_limit"], least=0.85 if name == "rows_128" else 0.9)
        goal(f"{name}: share of the load exposed", own["exposed_share"], most=0.05)
        goal(f"{name}: allocations in steady state", max(work["steady_allocations"].values()), most=0)
    goal("shuffle of 10^9 rows: ms to the first batch", shuffle["ms"], most=1)
    goal("shuffle of 10^9 rows: MB", shuffle["most_mb"], most=1)
    return found


def print_work(work: dict) -> None:
    print(
        f"\n{work['title']}, {work['rows']:,} rows of {work['row_bytes']:,} bytes;"
        f" others used {work['others_cores']:.2f} cores"
    )
    print(f"{'':16}", *(f"{heading:>{width}}" for heading, width, *_ in COLUMNS))
    for name, one in work["series"].items():
        cells = (f"{one[key] * scale:{width}{form}}" for _, width, key, form, scale in COLUMNS if key in one)
        print(f"{name:16}", *cells)
    print(
        f"allocations in steady state: {work['steady_allocations']}; exactly once: {', '.join(work['exactly_once'])}",
        flush=True,
    )


def print_goals(found: list[dict]) -> None:
    print()
    for one in found:
        print(f"{'reached' if one['reached'] else 'MISSED':7} {one['goal']}: {one['measured']:g} ({one['wanted']})")
