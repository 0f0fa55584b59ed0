# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Laws of distribution: every row once at any number of replicas and over restarts, the same number of steps."""

import collections
import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torch_distinput as tdi


@dataclasses.dataclass(frozen=True)
class Setting:
    """One distributed pipeline."""

    rows: int
    batch: int
    drop: bool
    shuffle: bool
    split: str
    tail: str
    policy: str
    stream: bool = False

    def dataset(self) -> tdi.Dataset:
        ids = torch.arange(self.rows)
        dataset = tdi.Dataset.from_tensor_slices({"id": ids, "x": torch.stack([ids, ids], 1).float()})
        if self.shuffle:
            dataset = dataset.shuffle(seed=11)
        dataset = dataset.batch(self.batch, drop_remainder=self.drop)
        if self.stream:  # a filter takes the pipeline off the random-access path
            dataset = dataset.filter(lambda element: element["id"].sum() >= 0)
        return dataset.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy[self.policy]))

    def distributed(self, replicas: int) -> tdi.DistributedDataset:
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        return strategy.distribute_dataset(self.dataset(), tdi.InputOptions(split=self.split, tail=self.tail))

    def ids(self) -> list[int]:
        """The rows of an epoch, in the order of the pipeline."""
        return [int(row) for batch in self.dataset() for row in batch["id"]]


def settings(tails: list[str], stream: bool = False) -> st.SearchStrategy[Setting]:
    return st.builds(
        Setting,
        rows=st.integers(0, 20),
        batch=st.integers(1, 8),
        drop=st.booleans(),
        shuffle=st.booleans(),
        split=st.sampled_from(["tf", "balanced"]),
        tail=st.sampled_from(tails),
        policy=st.sampled_from(["AUTO", "OFF"]),
        stream=st.booleans() if stream else st.just(False),
    )


REPLICAS = st.integers(1, 5)


def parts_of(dataset: tdi.DistributedDataset, step) -> list[dict]:
    """A step as one {"id", "x"} for each replica."""
    columns = {key: value.values if isinstance(value, tdi.PerReplica) else [value] for key, value in step.items()}
    return [dict(zip(columns, parts)) for parts in zip(*columns.values())]


def take(iterator: tdi.DistributedIterator, dataset: tdi.DistributedDataset, count: int | None) -> tuple[list, list]:
    """Up to `count` steps: the valid row ids in order, and the steps' infos."""
    ids, infos = [], []
    while count is None or len(infos) < count:
        step = next(iterator, None)
        if step is None:
            break
        info = iterator.step_info
        for part, valid in zip(parts_of(dataset, step), info.valid):
            assert part["x"].dtype == torch.float32
            assert part["x"].shape == (len(part["id"]), 2)
            assert torch.equal(part["x"], torch.stack([part["id"]] * 2, 1).float())
            ids += part["id"][:valid].tolist()
        infos.append(info)
    return ids, infos


def ids_over_restarts(legs: list[tuple[tdi.DistributedDataset, int | None]]) -> list[int]:
    """The ids of `take` over datasets that each continue where the one before stopped."""
    state, ids = None, []
    for dataset, steps in legs:
        iterator = iter(dataset)
        if state is not None:
            iterator.load_state_dict(state)
        ids += take(iterator, dataset, steps)[0]
        state = iterator.state_dict()
    return ids


@given(settings(["zero_rows", "padded", "merge"]), REPLICAS)
def test_every_row_reaches_one_replica_once(setting, replicas):
    dataset = setting.distributed(replicas)
    ids, infos = take(iter(dataset), dataset, None)
    assert len(infos) == len(dataset)
    assert ids == setting.ids()
    assert sorted(ids) == list(range(setting.rows)) or len(ids) == setting.rows // setting.batch * setting.batch


@given(
    settings(["zero_rows", "padded", "merge"], stream=True),
    st.lists(st.tuples(REPLICAS, st.integers(0, 4)), max_size=4),
    REPLICAS,
)
def test_every_row_once_also_over_restarts_with_other_numbers_of_replicas(setting, legs, last):
    datasets = [(setting.distributed(replicas), steps) for replicas, steps in [*legs, (last, None)]]
    assert ids_over_restarts(datasets) == setting.ids()


@given(
    settings(["zero_rows", "padded", "merge"]).filter(lambda setting: not setting.drop),
    st.lists(st.tuples(REPLICAS, st.integers(1, 8), st.integers(0, 4)), max_size=4),
)
def test_every_row_once_also_over_restarts_with_other_batch_sizes(setting, legs):
    datasets = [
        (dataclasses.replace(setting, batch=batch).distributed(replicas), steps)
        for replicas, batch, steps in [*legs, (2, 3, None)]
    ]
    assert ids_over_restarts(datasets) == setting.ids()


@given(settings(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"], stream=True), REPLICAS)
def test_step_info_is_true(setting, replicas):
    dataset = setting.distributed(replicas)
    ids, infos = take(iter(dataset), dataset, None)
    before = 0
    for step, info in enumerate(infos):
        assert (info.step, info.epoch, info.num_replicas) == (step, 0, replicas)
        assert info.row_start == before
        assert info.global_valid == sum(info.valid) > 0
        assert len(info.valid) == len(info.loss_scale) == len(info.has_value) == replicas
        for valid, scale, there in zip(info.valid, info.loss_scale, info.has_value):
            assert scale == pytest.approx(replicas * valid / info.global_valid)
            assert there or valid == 0
        assert info.is_last == (step == len(infos) - 1)
        before += info.global_valid
    assert len(ids) == before


@given(settings(["repeat", "drop", "until_first"]), REPLICAS)
def test_the_other_tails_keep_their_own_count(setting, replicas):
    dataset = setting.distributed(replicas)
    ids, infos = take(iter(dataset), dataset, None)
    wanted = setting.ids()
    full = len(wanted) // setting.batch * setting.batch
    if setting.tail == "drop":
        assert sorted(ids) == sorted(wanted[:full])
    elif setting.tail == "repeat":
        short = -len(wanted) % setting.batch
        filled = [wanted[index % len(wanted)] for index in range(short)] if wanted else []
        assert collections.Counter(ids) == collections.Counter(wanted + filled)
    else:
        assert all(min(info.valid) > 0 for info in infos)
        assert sorted(ids) == sorted(wanted[: len(ids)])


def merged(steps: list[list[list[int]]], replicas: int) -> list[list[list[int]]]:
    """`steps`, with the last two dealt out as one where a replica gets no row of the last and all could get some."""
    rows = [row for step in steps[-2:] for part in step for row in part]
    if not steps or all(steps[-1]) or len(rows) < replicas:
        return steps
    share, more = divmod(len(rows), replicas)
    ends = [share * (replica + 1) + min(replica + 1, more) for replica in range(replicas)]
    return [*steps[:-2], [rows[begin:end] for begin, end in zip([0, *ends], ends)]]


@given(settings(["merge"], stream=True), REPLICAS)
def test_a_last_step_that_lacks_rows_is_merged(setting, replicas):
    def steps(setting):
        dataset = setting.distributed(replicas)
        return [[part["id"].tolist() for part in parts_of(dataset, step)] for step in dataset]

    assert steps(setting) == merged(steps(dataclasses.replace(setting, tail="zero_rows")), replicas)


@given(settings(["padded", "repeat"]), REPLICAS)
def test_filled_tails_give_every_replica_its_full_share(setting, replicas):
    dataset = setting.distributed(replicas)
    iterator = iter(dataset)
    shapes = {tuple(len(part["id"]) for part in parts_of(dataset, step)) for step in iterator}
    if setting.split == "balanced":
        assert len(shapes) <= 1
        assert all(sum(sizes) == setting.batch for sizes in shapes)


@given(settings(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"], stream=True), REPLICAS)
def test_every_step_can_be_resumed(setting, replicas):
    dataset = setting.distributed(replicas)

    def rest(iterator):
        return [[part["id"].tolist() for part in parts_of(dataset, step)] for step in iterator]

    def infos(iterator):
        found = [iterator.step_info for _ in iterator]
        return found

    iterator = iter(dataset)
    states, steps = [iterator.state_dict()], []
    for step in iterator:
        steps.append([part["id"].tolist() for part in parts_of(dataset, step)])
        states.append(iterator.state_dict())
    all_infos = infos(iter(setting.distributed(replicas)))
    for index, state in enumerate(states):
        for read, wanted in ((rest, steps), (infos, all_infos)):
            resumed = iter(setting.distributed(replicas))
            resumed.load_state_dict(state)
            assert read(resumed) == wanted[index:]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 20), st.integers(1, 8))
def test_weights_share_out_the_rows(weights, rows, batch):
    strategy = tdi.MirroredStrategy(["cpu"] * len(weights))
    options = tdi.InputOptions(split="balanced", weights=weights)
    dataset = strategy.distribute_dataset(tdi.Dataset.range(rows).batch(batch), options)
    seen = []
    for step in dataset:
        parts = strategy.local_results(step)
        total = sum(len(part) for part in parts)
        for part, weight in zip(parts, weights):
            assert abs(len(part) - total * weight / sum(weights)) < 1
        seen += [int(row) for part in parts for row in part]
    assert seen == list(range(rows))


@given(settings(["zero_rows"]), REPLICAS, st.integers(1, 3), st.sampled_from([0, 1, 4]))
def test_threads_and_buffers_do_not_change_steps(setting, replicas, threads, buffered):
    def steps(dataset, options):
        distributed = tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(dataset, options)
        return [[part["id"].tolist() for part in parts_of(distributed, step)] for step in distributed]

    plain = steps(setting.dataset(), tdi.InputOptions(split=setting.split))
    threaded = setting.dataset().with_options(tdi.Options(num_threads=threads))
    assert steps(threaded, tdi.InputOptions(split=setting.split, per_replica_buffer_size=buffered)) == plain


@given(settings(["zero_rows", "padded", "repeat", "drop", "until_first", "merge"]), REPLICAS)
def test_a_pipeline_without_a_plan_is_assigned_alike(setting, replicas):
    def steps(setting):
        dataset = setting.distributed(replicas)
        iterator = iter(dataset)
        found = []
        for step in iterator:
            found.append(([part["id"].tolist() for part in parts_of(dataset, step)], iterator.step_info))
        return found

    assert steps(dataclasses.replace(setting, stream=True)) == steps(setting)


def test_each_epoch_is_shuffled_anew_and_set_epoch_pins_it():
    def order(dataset):
        return [int(row) for step in dataset for part in step.values for row in part]

    def make():
        strategy = tdi.MirroredStrategy(["cpu", "cpu"])
        return strategy.distribute_dataset(tdi.Dataset.range(40).shuffle(seed=5).batch(8))

    dataset, other = make(), make()
    epochs = [order(dataset) for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    other.set_epoch(2)
    assert order(other) == epochs[2]
    dataset.set_epoch(0)
    assert order(dataset) == epochs[0]


def test_steps_are_kept_unchanged_while_later_ones_arrive():
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    dataset = strategy.distribute_dataset(tdi.Dataset.range(64).batch(4))
    kept = [part for step in dataset for part in strategy.local_results(step)]
    assert [int(row) for part in kept for row in part] == list(range(64))
