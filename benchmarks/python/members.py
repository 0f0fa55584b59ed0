# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a change of the members costs a process that goes on: the wait for its next batch.

    python benchmarks/python/members.py --json benchmarks/results/members.json

The number of members goes to and fro between 4 and 3, once in 16 steps of 10 ms each, in a membership without messages,
so that only the loader's part is measured: what was read ahead for the members before is dropped, and the new part is
dealt by arithmetic. A step has 256 rows. "tensors": 10,000,000 rows of 64 bytes, shuffled. "64 ahead": the same rows,
of which 64 steps lie ready. "python": rows that Python makes in 50 µs each; "workers": the same in two worker
processes; "busy workers": the same with steps of 0 ms, so that workers are at batches, and others wait for them, when
the members change. `same_ms` and `changed_ms` are medians of the waits for a batch, `changed_most_ms` the longest one,
`begun_ms` the median of the part of the wait after a change in which the first row of the new part was not begun yet
(where Python makes them), `deal_ms` the mean of `stats().members.deal_seconds`, and `workers_started` counts processes.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

import machine
import torch
from torch.utils.data import Dataset

import torch_distinput as tdi

BATCH, EVERY, CHANGES = 256, 16, 20
STEP_SECONDS = {"busy workers": 0.0}  # of a kind of rows, else 0.01
ROWS, PYTHON_ROWS, ROW_SECONDS = 10_000_000, 1_000_000, 5e-5


class ToAndFro(tdi.Membership):
    """The first of 4 members, or of 3."""

    count, generation = 4, 0

    def change(self) -> None:
        self.count, self.generation = 7 - self.count, self.generation + 1

    def begin_step(self) -> tdi.StepMembers:
        return tdi.StepMembers(self.generation, 0, self.count)


class Made(Dataset):
    """Rows that take Python some time, with the time at which each was begun, by the clock of all processes."""

    def __len__(self) -> int:
        return PYTHON_ROWS

    def __getitem__(self, row: int) -> torch.Tensor:
        begun = time.perf_counter()
        while time.perf_counter() < begun + ROW_SECONDS:
            pass
        return torch.full((8,), begun, dtype=torch.float64)


def arguments_of(kind: str) -> dict[str, Any]:
    if kind.endswith("workers"):
        return {"dataset": Made(), "num_workers": 2}
    if kind == "python":
        return {"dataset": Made()}
    rows = torch.zeros(ROWS, 16)
    return {"dataset": rows, "prefetch_bytes": 64 * BATCH * 64} if kind == "64 ahead" else {"dataset": rows}


def measure(kind: str) -> dict[str, Any]:
    membership = ToAndFro()
    loader = tdi.DataLoader(
        **arguments_of(kind), membership=membership, global_batch_size=BATCH, shuffle=True, seed=1, tail="zero_rows"
    )
    steps = iter(loader)
    waits: dict[bool, list[float]] = {False: [], True: []}
    begun: list[float] = []
    workers: set[int] = set()
    for step in range(EVERY * (CHANGES + 1)):
        changes = step > 0 and step % EVERY == 0
        if changes:
            membership.change()
        began = time.perf_counter()
        batch = next(steps)
        if changes:
            begun.append(float(batch.min()) - began)
        if step >= EVERY // 2:  # after the start
            waits[changes].append(time.perf_counter() - began)
        loader.commit(True)
        workers.update(child.pid for child in multiprocessing.active_children())
        time.sleep(STEP_SECONDS.get(kind, 0.01))
    members = loader.stats().members
    loader.close()
    return {
        "rows": kind,
        "same_ms": 1000 * statistics.median(waits[False]),
        "changed_ms": 1000 * statistics.median(waits[True]),
        "changed_most_ms": 1000 * max(waits[True]),
        "begun_ms": 1000 * statistics.median(begun) if kind.endswith(("python", "workers")) else None,
        "deals": members.deals,
        "deal_ms": 1000 * members.deal_seconds / members.deals,
        "workers_started": len(workers),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = [measure(kind) for kind in ("tensors", "64 ahead", "python", "workers", "busy workers")]
    for found in results:
        print(
            "{rows}: {same_ms:.2f} ms for a batch, {changed_ms:.2f} ms after a change (at most {changed_most_ms:.2f}), "
            "{deal_ms:.2f} ms of that to deal, {begun_ms} ms before it is begun; {workers_started} worker "
            "processes".format(**found)
        )
    if given.json:
        given.json.write_text(json.dumps(machine.describe(("torch",)) | {"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
