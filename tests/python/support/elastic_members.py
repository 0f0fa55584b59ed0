# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A program for torchrun that trains with a checkpoint, and kills processes and nodes of its job at given steps:

    torchrun ... elastic_members.py FOLDER NODE NODES ROWS BATCH EPOCHS IN_ORDER STREAMS KILLS

KILLS steps at equal distances each kill, once all nodes are there, the last rank alone, or in turn another rank than
that of node 0, together with the agent of its node.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import member_training
import torch
import torch.distributed as dist
from member_training import Training

import torch_distinput as tdi

SAVE_EVERY = 2


def main(folder: Path, node: int, nodes: int, training: Training, kills: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    history = member_training.History(training)
    train = member_training.loader_of(training, tdi.Membership.ranks())
    check = member_training.checker_of(training, tdi.Membership.ranks())
    loaders = [train] if training.streams else [train, check]
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        history.load_state_dict(saved["model"])
        train.load_state_dict(saved["train"])
        check.load_state_dict(saved["check"])

    class Ranks(member_training.Steps):
        def average(self, gradient: torch.Tensor, *sums: torch.Tensor) -> None:
            if self.taken(loaders) % SAVE_EVERY == 0 and dist.get_rank() == 0:
                states = {"train": train.state_dict(), "check": check.state_dict()}
                save(checkpoint, {"model": history.state_dict(), **states})
            for value in (gradient, *sums):
                dist.all_reduce(value)
            gradient /= dist.get_world_size()

        def tell(self, step: int) -> None:
            killed = len(list(folder.glob("kill *")))
            if killed < kills and step >= (killed + 1) * training.total // (kills + 1):
                if dist.get_world_size() < nodes:
                    signal.pause()  # until the agent starts this process again, together with those that come
                die(folder / f"kill {killed}", killed % 2 == 0, node)

    if training.streams:
        member_training.run_streams(training, train, history, Ranks())
    else:
        member_training.run(training, loaders, history, Ranks())
    save(folder / f"learnt {node}.pt", history.state_dict())
    dist.destroy_process_group()


def save(path: Path, content: Any) -> None:
    """Replaces the file as a whole."""
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def die(mark: Path, with_agent: bool, node: int) -> None:
    """Kills this process, if the kill falls to it."""
    if node == 0 if with_agent else dist.get_rank() < dist.get_world_size() - 1:
        return
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    mark.write_text(f"{'node' if with_agent else 'process'}, {dist.get_world_size()} ranks")
    if with_agent:
        os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    node, nodes, *training, kills = map(int, sys.argv[2:])
    main(Path(sys.argv[1]), node, nodes, Training(*training), kills)
