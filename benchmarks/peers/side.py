# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""One system at one task, in a process of its own (or in one for each rank): `side.py TASK SYSTEM FOLDER`.

Started by run.py. Checks a whole epoch and says so, then measures whenever a line arrives on the standard input. Each
answer is a line of JSON on the standard output.
"""

import gc
import importlib
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from task import Epoch, Task, WrongOutput, check_batch, check_epoch, count_errors

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import machine

# A measurement takes epochs until LEAST seconds are timed, or MOST have passed with all starts, and stops inside one
# after MOST seconds. Ranks must take the same steps: they take this many epochs.
LEAST, MOST, EPOCHS = 0.3, 1.5, 2
Answer = dict[str, Any]


def descendants(pid: int) -> Iterator[int]:
    """Process ids of all living processes below `pid`."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield child
        yield from descendants(child)


class Cpu:
    """CPU time of this process and of all below it since this object was made."""

    def __init__(self) -> None:
        self.own = machine.cpu_seconds()  # includes children that ended, from their first second on
        self.below = {pid: machine.process_seconds(pid) for pid in descendants(os.getpid())}

    def seconds(self) -> float:
        now = Cpu()
        living = sum(used - self.below.get(pid, 0.0) for pid, used in now.below.items())
        return max(0.0, now.own - self.own + living - self.of_ended(now))

    def of_ended(self, now: "Cpu") -> float:
        """What children used before, who have ended since. Not more than `own` grew by: the parent of others was no
        process of ours."""
        ended = sum(used for pid, used in self.below.items() if pid not in now.below)
        return min(ended, max(0.0, now.own - self.own))


def measure(epoch: Epoch, epochs: int | None = None) -> Answer:
    """Time between batches, without the one to the first batch of an epoch, which is a figure of its own."""
    first, wall, cpu, count = [], 0.0, 0.0, 0
    begun = time.perf_counter()
    while len(first) < epochs if epochs else wall < LEAST and time.perf_counter() - begun < MOST:
        gc.collect()
        asked = time.perf_counter()
        batches = iter(epoch())
        batch = next(batches)
        start = time.perf_counter()
        first.append(start - asked)
        used, taken = Cpu(), 0
        start = time.perf_counter()
        for batch in batches:
            taken += 1
            if not epochs and time.perf_counter() - start > MOST:
                break
        wall += time.perf_counter() - start
        del batch, batches  # ends worker processes
        cpu += used.seconds()
        count += taken
    return {"us": wall / count * 1e6, "cpu_us": cpu / count * 1e6, "first_ms": min(first) * 1e3}


class RankFailed(Exception):
    """What one rank said about its failure."""


class One:
    """The system in this process."""

    def __init__(self, task: Task, system: str, folder: Path) -> None:
        self.task, self.folder = task, folder
        self.epoch = task.systems[system](folder)

    def check(self) -> Answer:
        check_epoch(self.task, self.epoch(), self.folder)
        return {"repeated": 0, "missing": 0}

    def measure(self) -> Answer:
        return measure(self.epoch)


class Rank(One):
    """The system in one of several processes, which all take the same steps."""

    def check(self) -> Answer:
        found = [check_batch(self.task, batch, self.folder) for batch in self.epoch()]
        sizes = [len(ids) for ids in found]
        if max(sizes) > self.task.batch or any(size < self.task.batch for size in sizes[:-1]):
            raise WrongOutput(f"batches of {sorted(set(sizes))} rows, not of {self.task.batch}")
        return {"ids": torch.cat(found).tolist(), "steps": len(found)}

    def measure(self) -> Answer:
        torch.distributed.barrier()
        return measure(self.epoch, EPOCHS)


class Ranks:
    """Starts a process for each rank and speaks for all of them."""

    def __init__(self, task: Task, arguments: list[str]) -> None:
        self.task = task
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        setting = {
            "WORLD_SIZE": str(task.ranks),
            "LOCAL_WORLD_SIZE": str(task.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        self.ranks = [
            subprocess.Popen(
                [sys.executable, __file__, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **setting, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(task.ranks)
        ]

    def answers(self) -> list[Answer]:
        found = [json.loads(rank.stdout.readline() or '{"failed": "a rank ended"}') for rank in self.ranks]
        for answer in found:
            if "failed" in answer:
                raise RankFailed(answer["failed"])
        return found

    def check(self) -> Answer:
        found = self.answers()
        if len({answer["steps"] for answer in found}) != 1:
            raise WrongOutput(f"steps of the ranks: {[answer['steps'] for answer in found]}")
        ids = torch.tensor([row for answer in found for row in answer["ids"]])
        repeated, missing = count_errors(self.task, ids)
        if (repeated or missing) and not self.task.inexact:
            raise WrongOutput(f"{repeated} rows repeated, {missing} missing, of {self.task.rows}")
        return {"repeated": repeated, "missing": missing}

    def measure(self) -> Answer:
        for rank in self.ranks:
            rank.stdin.write("\n")
            rank.stdin.flush()
        found = self.answers()
        slowest = {key: max(answer[key] for answer in found) for key in ("us", "first_ms")}
        return {**slowest, "cpu_us": sum(answer["cpu_us"] for answer in found)}


def load(task: str) -> Task:
    return importlib.import_module(task).TASK


def serve(make: Callable[[], One | Ranks], answer: Callable[[Answer], None]) -> None:
    """Answers once about the check, then for each line of the input about a measurement."""
    try:
        side = make()
        answer(side.check())
        for _ in sys.stdin:
            answer(side.measure())
    except RankFailed as error:
        answer({"failed": str(error)})
    except WrongOutput as error:
        answer({"failed": f"wrong output: {error}"})
    except Exception as error:  # noqa: BLE001  (whatever a system raises is why it has no figure)
        traceback.print_exc()
        answer({"failed": f"{type(error).__name__}: {error}"[:300]})


def main() -> None:
    name, system, folder = sys.argv[1:]
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what systems print is no answer

    def answer(content: Answer) -> None:
        output.write(json.dumps(content) + "\n")
        output.flush()

    task = load(name)
    torch.set_num_threads(1)
    if task.ranks == 1:
        serve(lambda: One(task, system, Path(folder)), answer)
    elif "RANK" not in os.environ:
        serve(lambda: Ranks(task, sys.argv[1:]), answer)
    else:
        torch.distributed.init_process_group("gloo")
        serve(lambda: Rank(task, system, Path(folder)), answer)
    os._exit(0)  # without waiting for threads of systems that do not end


if __name__ == "__main__":
    main()
