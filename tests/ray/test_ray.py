# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`executor="ray"` with Ray itself: rows, order and states are those of the local pipeline, whatever is killed."""

import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy
import pytest
import torch

import torch_distinput as tdi
from torch_distinput.distribute._part import Part
from torch_distinput.executors._engine import Lost, Ready
from torch_distinput.executors._ray import RayActors

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")
pyarrow = pytest.importorskip("pyarrow")

HERE = Path(__file__).parent
STORE = 128 << 20  # bytes of a node's object store
LIMIT = 120  # seconds that a process may take
ACTORS = {"num_cpus": 0.5}


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs, and two nodes with one each."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    arguments = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    found = cluster_utils.Cluster(initialize_head=True, head_node_args=arguments)
    try:
        for _ in range(2):
            found.add_node(num_cpus=1, object_store_memory=STORE)
        ray.init(address=found.address, log_to_driver=False)
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def executor(least=1, most=2):
    return tdi.Executor("ray", min_workers=least, max_workers=most, worker_options=ACTORS)


def named(row):
    return {"x": row * 2, "name": str(int(row)), "noise": torch.rand(2, generator=tdi.random())}


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


def pipeline(draws):
    dataset = tdi.Dataset.range(draws.randrange(5, 60))
    for op in draws.sample(["shuffle", "map", "skip", "repeat"], draws.randrange(1, 4)):
        match op:
            case "shuffle":
                dataset = dataset.shuffle(seed=draws.randrange(9))
            case "map":
                dataset = dataset.map(named)
            case "skip":
                dataset = dataset.skip(draws.randrange(4))
            case "repeat":
                dataset = dataset.repeat(2)
    return dataset


@pytest.mark.filterwarnings("ignore:.*without rows.*")
@pytest.mark.parametrize("seed", range(3))
def test_rows_order_and_states_are_those_of_the_local_pipeline(cluster, seed):
    draws = random.Random(seed)
    dataset, world = pipeline(draws), draws.randrange(1, 8)
    part, size = Part(draws.randrange(world), world), draws.randrange(1, 5)
    arguments = {"batch_size": size, "distributed": part, "seed": seed, "with_info": True}
    local = tdi.DataLoader(dataset, **arguments)
    with tdi.DataLoader(dataset, **arguments, executor=executor()) as remote:
        states = []
        for (ours, our_info), (theirs, their_info) in zip(remote, local, strict=True):
            assert same(ours, theirs)
            assert our_info == their_info
            assert remote.state_dict() == local.state_dict()
            states.append(local.state_dict())
        at = draws.choice(states)
        remote.load_state_dict(at)
        local.load_state_dict(at)
        assert all(same(ours, theirs) for (ours, _), (theirs, _) in zip(remote, local, strict=True))


def wide(row):
    return {"row": row, "wide": row.expand(100_000).clone()}


def stored():
    """The memory of the object store that this process has mapped."""
    with open("/proc/self/maps") as maps:
        found = [line.split()[0].split("-") for line in maps if "plasma" in line]
    return [range(int(begin, 16), int(end, 16)) for begin, end in found]


def in_store(address):
    return any(address in each for each in stored())


def test_batches_are_views_of_the_object_store_and_hold_their_memory(cluster):
    dataset = tdi.Dataset.range(8).map(wide)
    with warnings.catch_warnings(), tdi.DataLoader(dataset, batch_size=2, executor=executor(most=1)) as loader:
        warnings.simplefilter("error")  # torch's of memory that is read-only
        batches = list(loader)
    del loader
    assert all(in_store(value.data_ptr()) for batch in batches for value in batch.values())
    kept = batches[2]["wide"].add_(1)
    del batches
    gc.collect()
    for fill in range(2 * STORE // (8 << 20)):  # the store gives all else that it can
        ray.get(ray.put(numpy.full(8 << 20, fill, numpy.uint8)))
    assert torch.equal(kept, torch.tensor([[5], [6]]).expand(2, 100_000))


def rows_of_arrow(numbers):
    return pyarrow.table({"n": numbers, "name": [f"row {number} {'x' * 50_000}" for number in numbers]})


def test_tables_of_arrow_are_views_of_the_object_store(cluster):
    arguments = {"batch_size": 3, "collate_fn": rows_of_arrow}
    with tdi.DataLoader(list(range(8)), **arguments, executor=executor(most=1)) as loader:
        tables = list(loader)
    assert tables == list(tdi.DataLoader(list(range(8)), **arguments))
    assert in_store(tables[1].column("name").chunk(0).buffers()[2].address)


def with_process(row):
    time.sleep(0.002)
    return {"row": row, "process": torch.tensor(os.getpid())}


def test_killed_actors_lose_and_repeat_no_row(cluster):
    draws, rows = random.Random(1), []
    dataset = tdi.Dataset.range(1200).map(with_process).batch(4)
    with tdi.DataLoader(dataset, batch_size=None, executor=executor(least=2)) as loader:
        for step, batch in enumerate(loader):
            rows += batch["row"].tolist()
            if step in (20, 21, 60, 150) or draws.random() < 0.01:
                os.kill(int(batch["process"][0]), signal.SIGKILL)
        assert loader.stats().workers.lost >= 1
    assert rows == list(range(1200))


@pytest.mark.parametrize("seed", range(2))
def test_nodes_killed_at_random_moments_lose_and_repeat_no_row(cluster, seed):
    draws, rows, seen = random.Random(seed), [], set()
    dataset = tdi.Dataset.range(200_000).map(with_process).batch(4)
    many = tdi.Executor("ray", min_workers=5, max_workers=5, worker_options=ACTORS)
    with tdi.DataLoader(dataset, batch_size=None, executor=many) as loader:
        steps = iter(loader)

        def take():
            batch = next(steps)
            rows.extend(batch["row"].tolist())
            seen.add(int(batch["process"][0]))

        for kill in range(2):
            node = cluster.add_node(num_cpus=1, object_store_memory=STORE)
            while len(seen) < 5 + kill:  # the fifth actor has no room elsewhere
                take()
            for _ in range(draws.randrange(40)):
                take()
            cluster.remove_node(node, allow_graceful=False)
        for _ in range(100):
            take()
        assert loader.stats().workers.lost >= 1
    assert rows == list(range(len(rows)))


def numbers_as_text():
    for number in range(400):
        yield str(number)


def parsed(text):
    time.sleep(0.002)
    return {"row": torch.tensor(int(text)), "noise": torch.rand(2, generator=tdi.random())}


def test_a_stream_is_read_here_and_killed_actors_lose_and_repeat_no_row(cluster):
    draws = random.Random(1)
    kills = {draws.randrange(10, 40), draws.randrange(50, 80)}  # each costs the start of an actor
    stream = tdi.Dataset.from_generator(numbers_as_text, tdi.StringSpec(()))
    dataset = stream.map(parsed).filter(lambda row: row["row"] % 7 != 3).shuffle(20, seed=1)
    arguments = {"batch_size": 4, "seed": 1, "with_info": True}
    local = tdi.DataLoader(dataset, **arguments, distributed=True)
    with tdi.DataLoader(dataset, **arguments, executor=executor(least=2)) as remote:
        states = []
        for step, (ours, theirs) in enumerate(zip(remote, local, strict=True)):
            assert same(ours[0], theirs[0])
            assert ours[1] == theirs[1]
            states.append(local.state_dict())
            assert remote.state_dict() == states[-1]
            if step in kills:
                kill_an_actor(draws)
        assert remote.stats().workers.lost >= 1
        at = draws.choice(states)
        remote.load_state_dict(at)
        local.load_state_dict(at)
        assert all(same(ours, theirs) for (ours, _), (theirs, _) in zip(remote, local, strict=True))


def kill_an_actor(draws):
    """One of this process's cluster."""
    parents, actors = {}, []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            name, fields = status.read_text().partition("(")[2].rsplit(")", 1)
            parents[int(status.parent.name)] = int(fields.split()[1])
            if name.startswith("ray::_Actor"):
                actors.append(int(status.parent.name))
    own = [actor for actor in actors if parents.get(parents[actor]) == os.getpid()]  # raylets are children
    if own:
        os.kill(draws.choice(own), signal.SIGKILL)


def test_an_error_comes_with_class_and_traceback(cluster):
    with tdi.DataLoader(tdi.Dataset.range(4).map(failing), batch_size=2, executor=executor()) as loader:
        steps = iter(loader)
        assert next(steps).tolist() == [0, 1]
        with pytest.raises(KeyError, match="no such row") as error:
            next(steps)
    assert "in failing" in str(error.value.__cause__)


def failing(row):
    if row == 3:
        raise KeyError("no such row")
    return row


class Exits:
    def open(self):
        return lambda request: os._exit(3)


def test_an_actor_is_lost_once_whatever_it_was_asked(cluster):
    engine, events = RayActors(Exits(), ACTORS), []
    end = time.monotonic() + LIMIT

    def follow(kind):
        while not any(isinstance(event, kind) for event in events):
            assert time.monotonic() < end
            events.extend(engine.wait(1.0))

    worker = engine.start()
    follow(Ready)
    for call in range(3):
        engine.ask(worker, call, b"1")
    follow(Lost)
    events.extend(engine.wait(1.0))
    engine.close()
    assert [type(event) for event in events] == [Ready, Lost]


def test_there_is_room_for_an_actor_for_each_cpu_that_it_takes(cluster):
    halves, tenths = RayActors(None, {"num_cpus": 0.5}), RayActors(None, {"num_cpus": 0.1})
    assert tenths.room() == 5 * halves.room() >= 20
    assert RayActors(None, {"num_cpus": 1000}).room() == 1


def test_a_killed_trainer_goes_on_where_it_stood(cluster, tmp_path):
    program = [sys.executable, str(HERE / "ray_trainer.py"), cluster.address, str(tmp_path)]
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    first = subprocess.run([*program, "17"], env=environment, timeout=LIMIT, capture_output=True, text=True)
    assert first.returncode == -signal.SIGKILL, first.stdout + first.stderr
    second = subprocess.run([*program, "0"], env=environment, timeout=LIMIT, capture_output=True, text=True)
    assert second.returncode == 0, second.stdout + second.stderr
    rows = [int(row) for row in (tmp_path / "rows").read_text().split()]
    assert rows == [int(row) for row in tdi.Dataset.range(200).shuffle(seed=5)]


@pytest.fixture(scope="module")
def rows_of_ray(cluster):
    data = pytest.importorskip("ray.data")
    rows = data.range(200, override_num_blocks=9)
    return rows.map(with_name, num_cpus=0.5)


def with_name(row):
    if row["id"] == 0:
        time.sleep(4.0)  # so that the first block is the last one to be made
    return {"id": row["id"], "name": f"row {row['id']}"}


@pytest.fixture(scope="module")
def table(rows_of_ray):
    return rows_of_ray.materialize()


def test_rows_of_ray_data_come_in_order(rows_of_ray, table):
    rows = list(tdi.Dataset.from_ray(rows_of_ray))
    assert not rows_of_ray.context.execution_options.preserve_order  # as before the call
    assert [int(row["id"]) for row in rows] == list(range(200))
    assert rows[7]["name"] == "row 7"
    materialized = [int(row["id"]) for row in tdi.Dataset.from_ray(table)]
    assert materialized == [row["id"] for row in table.take_all()]


def test_ranks_share_the_blocks_of_ray_data_and_resume(table):
    dataset = tdi.Dataset.from_ray(table)
    tdi.testing.assert_resumable(dataset.take(30))
    loader = tdi.DataLoader(dataset, batch_size=7, distributed=True)
    assert "streams (elements of from_tensor_slices)" in str(loader.explain())
    batches = []
    for batch in loader:
        batches.append(batch["id"])
        if len(batches) == 11:
            break
    other = tdi.DataLoader(dataset, batch_size=7, distributed=True)
    other.load_state_dict(loader.state_dict())
    batches += [batch["id"] for batch in other]
    assert torch.cat(batches).sort().values.tolist() == list(range(200))


@pytest.mark.parametrize("kept", [[5, 6, 30, 31], [5, 49], []])
def test_blocks_without_rows_are_left_out(cluster, kept):
    data = pytest.importorskip("ray.data")
    rows = data.range(50, override_num_blocks=5).filter(lambda row: row["id"] in kept, num_cpus=0.5)
    dataset = tdi.Dataset.from_ray(rows)
    assert [int(row["id"]) for row in dataset] == kept
    if kept:
        tdi.testing.assert_resumable(dataset)


def test_what_is_no_dataset_of_ray_data_is_refused():
    with pytest.raises(TypeError, match="must be a ray.data.Dataset, but is a list"):
        tdi.Dataset.from_ray([1])


@pytest.mark.parametrize("source", ["executor", "blocks"])
def test_inside_a_torch_trainer(cluster, table, source, tmp_path):
    train = pytest.importorskip("ray.train")
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        read_in_trainer,
        train_loop_config={"folder": str(tmp_path), "table": table if source == "blocks" else None},
        scaling_config=train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.25}),
        run_config=train.RunConfig(storage_path=str(tmp_path / "ray")),
    ).fit()
    reports = [json.loads((tmp_path / f"rank{rank}").read_text()) for rank in range(2)]
    assert len({len(steps) for steps in reports}) == 1
    assert sorted(row for steps in reports for step in steps for row in step) == list(range(200))


def test_ranks_that_execute_a_dataset_each_for_itself_are_told(rows_of_ray, tmp_path):
    train = pytest.importorskip("ray.train")
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        execute_in_trainer,
        train_loop_config={"folder": str(tmp_path), "rows": rows_of_ray},
        scaling_config=train.ScalingConfig(num_workers=2, resources_per_worker={"CPU": 0.25}),
        run_config=train.RunConfig(storage_path=str(tmp_path / "ray")),
    ).fit()
    for rank in range(2):
        assert "content" in (tmp_path / f"rank{rank}").read_text()


def execute_in_trainer(config):
    loader = tdi.DataLoader(tdi.Dataset.from_ray(config["rows"]), batch_size=3, distributed=True)
    with pytest.raises(tdi.DistributedDatasetError) as error:
        next(iter(loader))
    Path(config["folder"], f"rank{torch.distributed.get_rank()}").write_text(str(error.value))


def read_in_trainer(config):
    arguments = {"batch_size": 3, "distributed": True}
    if config["table"] is None:
        loader = tdi.DataLoader(tdi.Dataset.range(200).shuffle(seed=1), executor=executor(most=1), **arguments)
        steps = [batch.tolist() for batch in loader]
        loader.close()
    else:
        loader = tdi.DataLoader(tdi.Dataset.from_ray(config["table"]), **arguments)
        steps = [batch["id"].tolist() for batch in loader]
    Path(config["folder"], f"rank{torch.distributed.get_rank()}").write_text(json.dumps(steps))
