# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Positions in checkpoints: torch.distributed.checkpoint, other numbers of processes, other batch sizes."""

import itertools
import json

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ranks import returned, run_ranks

import torch_distinput as tdi

N = 1009


class Position:
    """An iterator as torch.distributed.checkpoint needs it."""

    def __init__(self, iterator):
        self.iterator = iterator

    def state_dict(self):
        return self.iterator.state_dict()

    def load_state_dict(self, state):
        self.iterator.load_state_dict(state)


def run_part(rank, folder, batch, resume, steps, replicas=1, threads=None):
    """Continues from the checkpoint for `steps` steps, and writes another one."""
    strategy = tdi.MultiWorkerMirroredStrategy(devices=["cpu"] * replicas)
    dataset = tdi.Dataset.range(N).shuffle().batch(batch).with_options(tdi.Options(num_threads=threads))
    iterator = iter(strategy.distribute_dataset(dataset, tdi.InputOptions(per_replica_buffer_size=batch % 3)))
    position = Position(iterator)
    if resume:
        dcp.load({"data": position}, checkpoint_id=folder)
    steps = itertools.islice(iterator, steps)
    rows = [row for step in steps for part in strategy.experimental_local_results(step) for row in part.tolist()]
    dcp.save({"data": position}, checkpoint_id=folder)
    return rows, iterator.state_dict()


def test_a_distributed_checkpoint_restores_on_another_number_of_processes(tmp_path):
    seen = []
    for life, (world, batch, steps) in enumerate([(3, 16, 20), (2, 24, 10_000)]):
        results = returned(run_ranks(run_part, world, str(tmp_path / "checkpoint"), batch, life > 0, steps))
        seen += [row for rows, _ in results for row in rows]
        assert all(state == results[0][1] for _, state in results)
    assert sorted(seen) == list(range(N))


class PositionsOfAll:
    """Iterators over files of each process's own: the checkpoint holds one list of states, the same on every rank."""

    def __init__(self, iterator):
        self.iterator = iterator

    def state_dict(self):
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, self.iterator.state_dict())
        return {"of_all": json.dumps(states)}

    def load_state_dict(self, state):
        self.iterator.load_state_dict(json.loads(state["of_all"]))


def read_files(rank, folder, life, steps):
    strategy = tdi.MultiWorkerMirroredStrategy()
    files = tdi.Dataset.list_files(f"{folder}/*.txt", seed=1)
    lines = tdi.TextLineDataset(files, index=False).batch(4)
    iterator = iter(strategy.distribute_dataset(lines))
    position = PositionsOfAll(iterator)
    if life > 0:
        dcp.load({"data": position}, checkpoint_id=f"{folder}/checkpoint")
    steps = itertools.islice(iterator, steps)
    rows = [row for step in steps for part in strategy.experimental_local_results(step) for row in part]
    dcp.save({"data": position}, checkpoint_id=f"{folder}/checkpoint")
    return rows


def test_a_distributed_checkpoint_restores_files_on_another_number_of_processes(tmp_path):
    for file in range(6):
        (tmp_path / f"{file}.txt").write_text("".join(f"{file} {line}\n" for line in range(5 + 3 * file)))
    seen = []
    for life, (world, steps) in enumerate([(2, 3), (2, 2), (3, 1000)]):
        for rows in returned(run_ranks(read_files, world, str(tmp_path), life, steps)):
            seen += rows
    assert sorted(seen) == sorted(f"{file} {line}" for file in range(6) for line in range(5 + 3 * file))


def test_the_state_of_wide_rows_is_small_too():
    columns = {f"column_{number}": torch.zeros(10, 3) for number in range(200)}
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])

    def position(columns):
        return iter(strategy.distribute_dataset(tdi.Dataset.from_tensor_slices(columns).batch(2)))

    state = position(columns).state_dict()
    assert len(json.dumps(state)) < 1000
    position(columns).load_state_dict(state)
    with pytest.raises(ValueError, match=r"saved from another pipeline; its op 0 was `from_tensor_slices\(.*#"):
        position({**columns, "column_7": torch.zeros(10, 4)}).load_state_dict(state)


@pytest.mark.slow
def test_a_chain_of_restarts_delivers_every_row_once(tmp_path):
    """On other numbers of processes and replicas, with other batches, threads and read-ahead."""
    chain = [(8, 16, 7, 1, 1), (6, 10, 13, 1, 2), (11, 32, 4, 1, None), (1, 8, 21, 3, 1), (3, 20, 10_000, 2, 2)]
    seen = []
    for life, (world, batch, steps, replicas, threads) in enumerate(chain):
        part = (str(tmp_path / "checkpoint"), batch, life > 0, steps, replicas, threads)
        results = returned(run_ranks(run_part, world, *part))
        seen += [row for rows, _ in results for row in rows]
        state = results[0][1]
        assert all(other == state for _, other in results)
        assert len(json.dumps(state)) < 1000
    assert sorted(seen) == list(range(N))
