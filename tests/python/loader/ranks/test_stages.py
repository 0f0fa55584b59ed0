# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Pipeline stages between the first and the last one take the same steps and states, and read no rows."""

import itertools

import pytest
import torch
import torch.distributed as dist
from ranks import returned, run_ranks
from torch.utils.data import Dataset

import torch_distinput as tdi

KINDS = ["tensor", "python", "workers", "pipeline", "mapped"]
TAILS = ["zero_rows", "padded", "repeat", "drop", "until_first", "merge"]


class Counted(Dataset):
    def __init__(self, size):
        self.size, self.reads = size, 0

    def __len__(self):
        return self.size

    def __getitem__(self, row):
        self.reads += 1
        return {"row": torch.tensor(row)}


def loader_of(kind, mesh, size=29, **arguments):
    arguments = {"batch_size": 4, "distributed": mesh, "stages": {"pp": "ends"}, "peer_timeout": 20} | arguments
    if kind in ("pipeline", "mapped"):
        dataset = tdi.Dataset.range(size).shuffle(7, seed=5)
        if kind == "mapped":
            dataset = dataset.map(lambda row: {"row": row})
        return tdi.DataLoader(dataset, **arguments)
    data = torch.arange(size) if kind == "tensor" else Counted(size)
    order = {"shuffle": True, "seed": 5} if size else {}
    return tdi.DataLoader(data, num_workers=int(kind == "workers"), **order, **arguments)


def values(batch):
    if batch is None:
        return None
    return (batch["row"] if isinstance(batch, dict) else batch).tolist()


def described(info):
    return [getattr(info, name) for name in ("epoch", "step", "row_start", "valid", "global_valid", "is_last")]


def all_steps(rank, cases):
    """Of each case, what this rank gets: batches, infos, states after each step, and the rest of a state that the next
    rank had in the middle of the epoch."""
    mesh = dist.init_device_mesh("cpu", (3, dist.get_world_size() // 3), mesh_dim_names=("pp", "dp"))
    seen = []
    for kind, arguments in cases:
        loader = loader_of(kind, mesh, **arguments)
        length, batches, infos, states = len(loader), [], [], []
        for batch in loader:
            batches.append(values(batch))
            infos.append(described(loader.last_info))
            states.append(loader.state_dict())
        everyone = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, states[len(states) // 2] if states else {})
        again = loader_of(kind, mesh, **arguments)
        again.load_state_dict(everyone[(rank + 1) % len(everyone)])
        rest = [values(batch) for batch in again]
        reads = getattr(loader.dataset, "reads", None)
        seen.append((length, batches, infos, [str(state) for state in states], rest, reads))
    return mesh.get_local_rank("pp"), seen


CASES = [(kind, {"tail": tail}) for kind, tail in itertools.product(["tensor", "python", "pipeline"], TAILS)]
CASES += [(kind, {"split": "tf", "size": size}) for kind, size in itertools.product(KINDS, [1, 24, 29])]
CASES += [(kind, {"size": 0}) for kind in ("tensor", "python", "pipeline")]
CASES += [("tensor", {"drop_last": True}), ("mapped", {"tail": "merge", "batch_size": 7})]


@pytest.mark.parametrize("world", [3, 6])
def test_middle_stages_take_the_same_steps_without_rows(world):
    cases = CASES if world == 3 else CASES[::4]
    ranks = returned(run_ranks(all_steps, world, cases, store="agent", limit=120, may_fork=True))
    for number, (kind, _) in enumerate(cases):
        of_stage = {stage: [seen[number] for at, seen in ranks if at == stage] for stage in range(3)}
        for first, middle, last in zip(*of_stage.values(), strict=True):
            assert first[:5] == last[:5]
            assert middle[0] == first[0] == len(middle[1])
            assert middle[1] == [None] * len(first[1]) and middle[4] == [None] * len(first[4])
            assert middle[2:4] == first[2:4]
            assert kind != "python" or middle[5] == 0
        rest = [seen[4] for seen in of_stage[0]]
        assert all(steps == seen[1][len(seen[1]) - len(steps) :] for steps, seen in zip(rest, of_stage[0], strict=True))


def shared_ends(rank, kind):
    mesh = dist.init_device_mesh("cpu", (4, 1), mesh_dim_names=("pp", "dp"))
    loader = loader_of(kind, mesh, share="node")
    seen = [values(batch) for _ in range(2) for batch in loader]
    return seen, getattr(loader.dataset, "reads", None), str(loader.state_dict())


@pytest.mark.parametrize("kind", ["python", "pipeline"])
def test_the_last_stage_takes_what_the_first_one_reads(kind):
    first, *middle, last = returned(run_ranks(shared_ends, 4, kind, store="agent", limit=60))
    assert first[0] == last[0] and sorted(row for batch in first[0] for row in batch) == sorted([*range(29)] * 2)
    assert {state for _, _, state in (first, *middle, last)} == {first[2]}
    assert all(batches == [None] * 16 for batches, *_ in middle)
    if kind == "python":
        assert [reads for _, reads, _ in (first, *middle, last)] == [2 * 29, 0, 0, 0]


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(9))


def wrong(rank):
    mesh = dist.init_device_mesh("cpu", (3, 1), mesh_dim_names=("pp", "dp"))

    def error(dataset, **arguments):
        try:
            for _ in tdi.DataLoader(dataset, **{"batch_size": 3} | arguments):
                pass
        except (TypeError, ValueError, tdi.DistributedDatasetError) as error:
            return f"{type(error).__name__}: {error}"

    rows = torch.arange(9)
    both = dist.init_device_mesh("cpu", (3, 1), mesh_dim_names=("dp", "pp"))
    unknown_rows = tdi.Dataset.range(9).filter(lambda row: True)
    unknown_sizes = tdi.Dataset.range(9).batch(3).map(lambda batch: batch)
    return [
        error(rows, stages={"pp": "ends"}),
        error(rows, distributed=True, stages={"pp": "ends"}),
        error(rows, distributed=mesh, stages="pp"),
        error(rows, distributed=mesh, stages={"tp": "ends"}),
        error(rows, distributed=mesh, stages={"pp": "first"}),
        error(rows, distributed=both, stages={"dp": "ends"}),
        error(Numbers(), distributed=mesh, stages={"pp": "ends"}, peer_timeout=5),
        error(unknown_rows, distributed=mesh, stages={"pp": "ends"}, peer_timeout=5),
        error(unknown_sizes, distributed=mesh, stages={"pp": "ends"}, batch_size=None, peer_timeout=5),
        error(rows, distributed=mesh, stages={"pp": "ends"}, on_error="skip"),
        "stages: some read no rows" in str(tdi.DataLoader(rows, 3, distributed=mesh, stages={"pp": "ends"}).explain()),
    ]


def test_errors_name_the_dim_and_the_rule():
    texts, *others = returned(run_ranks(wrong, 3, store="agent", limit=100))
    assert others == [texts, texts]
    assert "`stages` needs `distributed=True`" in texts[0]
    assert texts[1] == "ValueError: DataLoader: `stages` names dims of a DeviceMesh, which `distributed` is not."
    assert texts[2].startswith("TypeError: DataLoader: `stages` must be a dict")
    assert texts[3].endswith("`stages` names 'tp', but the dims of the mesh are 'pp', 'dp'.")
    assert texts[4].endswith("""stages['pp'] must be "ends", the first stage and the last one, but is 'first'.""")
    assert "`stages` names 'dp', along which whole rows are dealt" in texts[5]
    assert "only who reads this stream knows them" in texts[6]
    assert "`filter` has none, so that only reading tells its rows" in texts[7]
    assert "map rows before they are batched, or with `row_wise`" in texts[8]
    assert 'on_error="skip"' in texts[9]
    assert texts[10]
