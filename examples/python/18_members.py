# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A digit classifier whose replica groups are killed and come back while the others train on, under torchft:

    pip install torchft-nightly scikit-learn
    python examples/python/18_members.py [--picture members.svg]

The program starts torchft's lighthouse and three groups of one process each. Two of them are killed in the middle of an
epoch, and others begin in their place, which receive the weights of those that live. Nobody is restarted for it. Each
step holds 96 rows, whoever is there, and at the end each row was in exactly one committed step of each epoch, which the
groups count together with the weights. The picture shows which group had which rows when; it needs matplotlib.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import torch_distinput as tdi

GROUPS, EPOCHS, BATCH, TEST = 3, 4, 96, 359
KILLED_AT = (8, 20)  # steps
STEP_SECONDS = 0.25  # a larger model's


@dataclass
class Delivery:
    """The rows that a group got for a step: from `row` of the epoch on. `committed`: as far as is known."""

    seconds: float
    group: int
    step: int
    rows: int
    row: int
    committed: bool = True


def main(picture: Path | None) -> None:
    """Starts groups, kills some, and draws who had rows in which step."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=5000, quorum_tick_ms=20, heartbeat_timeout_ms=1000
    )
    reading, writing = os.pipe()
    groups: dict[int, subprocess.Popen] = {}

    def start() -> None:
        command = [sys.executable, __file__, "--group", str(len(groups)), "--lighthouse", lighthouse.address()]
        groups[len(groups)] = subprocess.Popen(command, stdout=writing)

    kills, taken, last_words = list(KILLED_AT), [], {}
    deaths: list[tuple[float, int]] = []
    began = time.monotonic()
    try:
        for _ in range(GROUPS):
            start()
        running = set(groups)
        for line in os.fdopen(reading):
            number, word, told = line.strip().split(maxsplit=2)
            group, now = int(number), time.monotonic() - began
            if word == "end":
                last_words[group] = told
                if running == set(last_words):
                    break
            elif word == "took" and group in running:
                taken.append(Delivery(now, group, *map(int, told.split())))
                if kills and taken[-1].step >= kills[0]:
                    kills.pop(0)
                    groups[group].kill()
                    taken[-1].committed = False
                    deaths.append((now, group))
                    running.remove(group)
                    start()
                    running.add(max(groups))
            elif word == "gave-back":
                last = [delivery for delivery in taken if delivery.group == group][-1]
                last.committed = False
    finally:
        for process in groups.values():
            process.kill()
        lighthouse.shutdown()
    print("steps from left to right; #: rows, +: a part without rows while it heals, blank: not there")
    for group in sorted({delivery.group for delivery in taken}):
        rows = {delivery.step: delivery.rows for delivery in taken if delivery.group == group}
        marks = (rows.get(step) for step in range(max(delivery.step for delivery in taken) + 1))
        drawn = "".join(" " if mark is None else "#" if mark else "+" for mark in marks)
        print(f"group {group} |{drawn}| {last_words.get(group, 'killed')}")
    if picture is not None:
        draw(taken, deaths, picture)


def draw(taken: list[Delivery], deaths: list[tuple[float, int]], path: Path) -> None:
    """The rows of the epochs over time, in the colour of the group that had them."""
    import matplotlib
    from matplotlib.figure import Figure

    begin = min(delivery.seconds for delivery in taken)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "members", "font.size": 9}):
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.add_subplot(xlabel="seconds", ylabel="rows of the epoch, in its order")
        for group in sorted({delivery.group for delivery in taken}):
            own = [delivery for delivery in taken if delivery.group == group and delivery.rows]
            for committed in (True, False):
                parts = [delivery for delivery in own if delivery.committed == committed]
                axes.bar(
                    [delivery.seconds - begin for delivery in parts],
                    [delivery.rows for delivery in parts],
                    width=STEP_SECONDS * 0.8,
                    bottom=[delivery.row for delivery in parts],
                    align="edge",
                    color=f"C{group}" if committed else "none",
                    edgecolor=f"C{group}",
                    linewidth=0.5,
                    label=f"group {group}" if committed else None,
                )
        for seconds, group in deaths:
            axes.axvline(seconds - begin, color=f"C{group}", linestyle=":", linewidth=1)
        axes.legend(title="dotted: killed\nhollow: given back", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def tell(line: str) -> None:
    """Writes at once to the pipe that all groups share."""
    os.write(1, f"{line}\n".encode())


class Model(torch.nn.Module):
    """A classifier, with the number of committed steps in which each row was."""

    def __init__(self, rows: int):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
        self.register_buffer("seen", torch.zeros(rows))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def train(group: int, lighthouse: str) -> None:
    """One group."""
    import torchft
    from torchft.process_group import ProcessGroupGloo

    from torch_distinput.frameworks.torchft import TorchFTMembership

    x, y = (torch.as_tensor(values) for values in load_digits(return_X_y=True))
    x = x.float() / 16
    rows = TensorDataset(torch.arange(len(x) - TEST), x[TEST:], y[TEST:])
    model = Model(len(rows))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def load(state: dict) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=5)),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=1,
        init_sync=False,
        timeout=timedelta(seconds=5),
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"group{group}",
        hostname="127.0.0.1",
    )
    loader = tdi.DataLoader(
        rows, global_batch_size=BATCH, membership=TorchFTMembership(manager), shuffle=True, seed=0, tail="zero_rows"
    )
    while loader.committed_steps < EPOCHS * len(loader):
        for numbers, images, labels in loader:
            step, info = loader.committed_steps, loader.last_info
            before = (manager.participating_rank() or 0) * info.global_valid // info.num_replicas
            tell(f"{group} took {step} {len(numbers)} {info.row_start + before}")
            time.sleep(STEP_SECONDS)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels, reduction="sum")
            tdi.distributed_mean(loss, info).backward()
            for parameter in model.parameters():
                manager.allreduce(parameter.grad).wait()
            seen = torch.zeros(len(rows))
            seen[numbers] = 1
            manager.allreduce(seen, reduce_op=dist.ReduceOp.SUM).wait()
            ok = manager.should_commit()
            if ok:
                optimizer.step()
                model.seen += seen
            else:
                tell(f"{group} gave-back {step}")
            loader.commit(ok)
    manager.shutdown()  # quorums wait for groups that are there
    accuracy = (model(x[:TEST]).argmax(1) == y[:TEST]).double().mean()
    least, most = int(model.seen.min()), int(model.seen.max())
    tell(f"{group} end rows seen {least} to {most} times in {EPOCHS} epochs, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, help="where to draw the rows over time, by group")
    parser.add_argument("--group", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lighthouse", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.group is None:
        main(arguments.picture)
    else:
        try:
            train(arguments.group, arguments.lighthouse)
        except BaseException as error:
            tell(f"{arguments.group} end {type(error).__name__}")
            raise
