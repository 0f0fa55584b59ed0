# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`DataLoader(distributed=True)` on real processes: rows, equal steps, tails, errors, epochs, resumes, verdicts."""

import inspect
import itertools
import os
import time
import warnings

import pytest
import torch
import torch.distributed as dist
from distributed_loaders import Squares, make, rows_of
from ranks import returned, run_ranks
from torch.utils.data import DistributedSampler, TensorDataset

import torch_distinput as tdi


def epochs(rank, kind, n, arguments, count):
    loader = make(kind, n, rank, **arguments)
    result = []
    for _ in range(count):
        steps = []
        for batch in loader:
            info = loader.last_info
            steps.append((rows_of(batch)[: info.valid[0]], len(rows_of(batch)), info.global_valid, info.is_last))
        assert len(steps) == len(loader)
        result.append(steps)
    return result


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize(
    ("kind", "n", "arguments"),
    [
        ("native", 29, {"shuffle": True}),
        ("native", 2, {}),
        ("native", 41, {"tail": "padded", "shuffle": True}),
        ("python", 29, {"shuffle": True}),
        ("python", 26, {}),
        ("collate", 25, {"shuffle": True, "seed": 4}),
        ("workers", 29, {"shuffle": True}),
        ("pipeline", 29, {}),
        ("native", 29, {"batch_size": 1, "global_batch_size": 10}),
        ("native", 26, {"tail": "merge", "shuffle": True}),
        ("python", 26, {"tail": "merge", "shuffle": True}),
        ("workers", 38, {"tail": "merge"}),
    ],
)
def test_every_row_once_in_equal_steps(kind, n, arguments):
    ranks = returned(run_ranks(epochs, 4, kind, n, arguments, 2, may_fork=True))
    batch = arguments.get("global_batch_size", 12)
    for epoch in range(2):
        steps = [rank[epoch] for rank in ranks]
        merged = arguments.get("tail") == "merge" and n % batch
        assert {len(rank) for rank in steps} == {n // batch if merged else -(-n // batch)}
        assert sorted(row for rank in steps for rows, *_ in rank for row in rows) == list(range(n))
        for step in zip(*steps):
            assert {valid for _, _, valid, _ in step} == {sum(len(rows) for rows, *_ in step)}
            sizes = [len(rows) for rows, *_ in step]
            assert max(sizes) - min(sizes) <= 1
        assert all(rank[-1][-1] and not any(step[-1] for step in rank[:-1]) for rank in steps)
        if arguments.get("tail") == "padded":
            assert {size for rank in steps for _, size, *_ in rank} == {3}
    if arguments.get("shuffle"):
        assert ranks[0][0] != ranks[0][1]


def parts(rank, kind, n):
    loader = make(kind, n, rank)
    return [batch for batch in loader], [batch for batch in make(kind, n, rank, tail="drop")]


@pytest.mark.parametrize("kind", ["native", "python", "collate"])
def test_a_rank_without_rows_gets_a_typed_batch_of_none(kind):
    ranks = returned(run_ranks(parts, 4, kind, 14))
    for rank, (steps, whole) in enumerate(ranks):
        assert len(steps) == 2 and len(whole) == 1
        assert len(rows_of(steps[1])) == (1 if rank < 2 else 0)
        if kind == "python":
            assert steps[1]["square"].dtype == torch.float32 and steps[1]["name"] == ["12", "13", *[]][rank : rank + 1]
        if kind == "native":
            assert steps[1][1].shape[1:] == (2,)


def few(rank, kind):
    return [rows_of(batch) for batch in make(kind, 2, rank)]


@pytest.mark.parametrize("kind", ["native", "python"])
def test_ranks_that_never_have_a_row_make_one_of_row_0(kind):
    assert returned(run_ranks(few, 4, kind)) == [[[0]], [[1]], [[]], [[]]]


def disagree(rank, what):
    n = 10 + (what == "length" and rank)
    dataset = TensorDataset(torch.arange(n) + (what == "content" and rank))
    if what == "type":
        dataset = Squares(n) if rank else [torch.zeros(1)] * n
    return list(tdi.DataLoader(dataset, 2, distributed=True, peer_timeout=20))


@pytest.mark.parametrize("what", ["length", "content", "type"])
def test_different_datasets_on_ranks_are_an_error(what):
    errors = run_ranks(disagree, 3, what)
    assert all(isinstance(error, tdi.DistributedDatasetError) for error in errors)
    text = "each rank passed another dataset: pass the whole one on every rank, or leave `distributed=None`"
    assert text in str(errors[0])


def frameworks(rank):
    loader = tdi.DataLoader(Squares(11), 2, shuffle=True, seed=3, distributed=True, with_info=True)
    sampler = loader.sampler
    assert isinstance(sampler, DistributedSampler) and loader.batch_sampler.sampler is sampler
    assert (sampler.num_replicas, sampler.rank, sampler.total_size) == (3, rank, 11)
    sampler.set_epoch(5)
    loader.set_epoch(5)
    rows, infos = [], []
    for batch, info in loader:
        rows += rows_of(batch)
        infos.append(info)
    assert list(sampler) == rows and len(sampler) == 4  # on all ranks: that of the longest
    assert infos[0].epoch == 5
    assert [loader.global_valid(step) for step in range(3)] == [6, 5, 0] and loader.global_valid(0, 2) == 11
    again = tdi.DataLoader(Squares(11), 2, sampler=sampler, seed=3, distributed=True)
    again.set_epoch(5)
    assert [row for batch in again for row in rows_of(batch)] == rows
    return rows


def test_the_sampler_looks_like_torchs():
    assert sorted(itertools.chain(*returned(run_ranks(frameworks, 3)))) == list(range(11))


def shown_batches(rank, cases, arguments):
    return [shown_batches_of(*case, arguments) for case in cases]


def shown_batches_of(n, shuffle, batch, arguments):
    arguments = arguments | {"global_batch_size": batch}
    seed = 2 if shuffle else None
    loader = tdi.DataLoader(Squares(n), distributed=True, shuffle=shuffle, seed=seed, **arguments)
    shown = list(loader.batch_sampler)
    assert len(shown) == len(loader.batch_sampler) == len(loader)
    assert shown == [rows_of(batch) for batch in loader]
    assert list(loader.sampler) == [index for batch in shown for index in batch]
    valid = [loader.global_valid(step) for step in range(len(shown))]
    assert valid == [loader.last_info.global_valid for _ in loader]
    return len(loader.sampler), sum(map(len, shown)), loader.sampler.total_size, sum(valid)


@pytest.mark.parametrize("split", ["balanced", "tf"])
@pytest.mark.parametrize("tail", ["zero_rows", "padded", "repeat", "drop", "until_first", "merge"])
def test_the_batch_sampler_shows_the_steps_of_the_loader(tail, split):
    cases = [(23, True, 12), (13, False, 12), (12, True, 8), (2, False, 12), (9, True, 7)]
    ranks = returned(run_ranks(shown_batches, 3, cases, {"tail": tail, "split": split}))
    for (n, *_), of_ranks in zip(cases, zip(*ranks), strict=True):
        lengths, rows, total, valid = zip(*of_ranks)
        assert set(lengths) == {max(rows)}  # the same on all ranks
        assert set(total) == {min(valid[0], n)}


def evaluate(rank, n):
    """Loss and accuracy of a model over uneven data, and the gradient of its mean loss."""
    torch.manual_seed(0)
    x, y = torch.randn(n, 4), torch.randint(0, 3, (n,))
    model = torch.nn.Linear(4, 3)
    loader = tdi.DataLoader(TensorDataset(x, y), 5, distributed=True)
    sums = torch.zeros(3, dtype=torch.float64)
    for inputs, labels in loader:
        outputs = model(inputs)
        loss = torch.nn.functional.cross_entropy(outputs, labels, reduction="sum")
        tdi.distributed_mean(loss, loader.last_info).backward()
        sums += torch.tensor([loss.item(), (outputs.argmax(1) == labels).sum().item(), len(labels)])
    dist.all_reduce(sums)
    dist.all_reduce(model.weight.grad)
    return sums, model.weight.grad / dist.get_world_size()


def test_metrics_over_uneven_data_are_those_of_one_process():
    four = returned(run_ranks(evaluate, 4, 101))
    (((loss, right, rows), gradient),) = returned(run_ranks(evaluate, 1, 101))
    for sums, _ in four:
        assert (sums[1], sums[2]) == (right, rows)
        assert sums[0].item() == pytest.approx(loss.item(), rel=1e-6)
    # Steps differ from those of one process, because each batch belongs to one rank: only the metrics are exact.
    assert all(torch.allclose(other, four[0][1]) for _, other in four)


def several_groups(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("tp", "dp"))
    loader = tdi.DataLoader(torch.arange(9), 2, distributed=mesh["dp"])
    group = tdi.DataLoader(torch.arange(9), 2, distributed=mesh["dp"].get_group())
    assert loader.sampler.num_replicas == 2
    return [batch.tolist() for batch in loader], [batch.tolist() for batch in group]


def test_groups_and_meshes():
    ranks = returned(run_ranks(several_groups, 4))
    assert ranks[0] == ranks[2] and ranks[1] == ranks[3]
    assert ranks[0][0] == [[0, 1], [4, 5], [8]] and ranks[1][1] == [[2, 3], [6, 7], []]


def peers(rank, what):
    """Loaders of a rank in a mesh of two data-parallel groups of tensor-parallel peers: rows, warnings."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    by_hand = {}
    if what == "groups made by hand":
        for ranks in ([0, 2], [1, 3]):
            group = dist.new_group(ranks)
            by_hand |= dict.fromkeys(ranks, group)
    group = {
        "mesh": lambda: mesh["dp"],
        "group of a mesh": lambda: mesh.get_group("dp"),
        "groups made by hand": lambda: by_hand[rank],
    }[what]()
    dataset = tdi.Dataset.range(12).shuffle()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loaders = [tdi.DataLoader(torch.arange(12), 3, shuffle=True, distributed=group) for _ in range(2)]
        loaders.append(tdi.DataLoader(dataset, 3, distributed=group))
        rows = [[rows_of(batch) for batch in loader] for loader in loaders]
    return rows, [str(one.message) for one in caught]


@pytest.mark.parametrize("what", ["mesh", "group of a mesh", "groups made by hand"])
def test_peers_of_a_mesh_get_the_same_rows_or_a_warning(what):
    ranks = returned(run_ranks(peers, 4, what))
    if what == "groups made by hand":
        for _, texts in ranks:
            assert len(texts) == 3
            assert all("group of 2 of 4 processes draws the order of rows, without a seed" in text for text in texts)
            assert all("Pass a seed" in text for text in texts)
    else:
        assert ranks[0] == ranks[1] and ranks[2] == ranks[3]
        assert not any(texts for _, texts in ranks)
    for loader in range(3):
        both = [row for rank in (0, 2) for batch in ranks[rank][0][loader] for row in batch]
        assert sorted(both) == list(range(12))


def streams_of_peers(rank):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        list(tdi.DataLoader(Squares(4), 1, sampler=range(rank), distributed=mesh["dp"]))
        list(tdi.DataLoader(Squares(4), 1, sampler=range(rank), distributed=True))
    return [str(one.message) for one in caught]


def test_streams_of_a_ranks_own_that_peers_must_read_too_are_named():
    for texts in returned(run_ranks(streams_of_peers, 4)):
        (text,) = [text for text in texts if "group" in text]
        assert "this group of 2 of 4 processes reads streams of its own" in text
        assert "Read the same stream" in text


def work(rank):
    numbers = tdi.Dataset.range(12)
    lazy = numbers.filter(lambda row: True).map(lambda row: row)
    late = numbers.batch(6).map(lambda batch: batch)
    texts = [str(tdi.DataLoader(dataset, 2, distributed=True).explain()) for dataset in (numbers, lazy)]
    return [*texts, str(tdi.DataLoader(late, None, distributed=True).explain())]


def test_work_that_every_rank_does_is_told_with_its_number():
    for once, lazy, late in returned(run_ranks(work, 3)):
        assert "work:" not in once
        assert "work: every rank reads all elements and runs all functions on them, 3 times in all" in lazy
        assert "3 times in all" in late


def leaving(rank):
    loader = tdi.DataLoader(torch.arange(10_000_000), 2, distributed=True, peer_timeout=20)
    for step, _ in enumerate(loader):
        time.sleep(0.001)  # the training step
        if rank == 1 and step == 5:
            break
    return "left"


def test_a_rank_that_breaks_is_named():
    here, there = run_ranks(leaving, 2)
    assert there == "left" and "rank 1 left its loop after 6 steps" in str(here)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"distributed": True, "sampler": "DistributedSampler"}, "shard them a second time; leave `sampler` out"),
        ({"distributed": True, "drop_last": True, "tail": "padded"}, '`drop_last=True` means `tail="drop"`'),
        ({"distributed": True, "global_batch_size": 8, "batch_size": 2}, "exclude each other, but are 8 and 2"),
        ({"distributed": True, "global_batch_size": 0}, "must be a positive integer, but is 0"),
        ({"distributed": True, "in_order": False}, "different orders"),
        ({"distributed": True, "batch_size": None}, "needs `batch_size`"),
        ({"distributed": True, "tail": "cut"}, "`tail` must be one of"),
        ({"global_batch_size": 8}, "`global_batch_size` needs `distributed=True`, but is 8"),
        ({"tail": "drop"}, "`tail` needs `distributed=True`, but is 'drop'"),
        ({"with_info": True}, "`with_info` needs `distributed=True`"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, text):
    if "sampler" in arguments:
        arguments = arguments | {"sampler": DistributedSampler(range(9), 3, 1)}
    with pytest.raises(ValueError, match=text):
        tdi.DataLoader(range(9), **arguments)


def test_distributed_is_true_or_a_group():
    with pytest.raises(TypeError, match="must be True, a process group or a DeviceMesh, but is a int"):
        tdi.DataLoader(range(9), distributed=4)


def test_a_framework_can_make_a_new_loader_from_the_attributes():
    for arguments in ({"batch_size": 3}, {"global_batch_size": 4}):
        loader = tdi.DataLoader(Squares(10), shuffle=True, seed=2, distributed=True, **arguments)
        names = inspect.signature(tdi.DataLoader.__init__).parameters.keys() & vars(loader).keys()
        again = tdi.DataLoader(**{name: getattr(loader, name) for name in names - {"batch_sampler"}})
        assert [rows_of(batch) for batch in again] == [rows_of(batch) for batch in loader]


def test_an_environment_without_its_group_is_an_error_of_the_first_iterator(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    loader = tdi.DataLoader(range(9), distributed=True)
    with pytest.raises(RuntimeError, match="process_group_from_env"):
        iter(loader)


def test_ranks_cannot_go_on_from_the_state_of_a_loader_without_them():
    state = tdi.DataLoader(range(9)).state_dict()
    with pytest.raises(ValueError, match="with `distributed` cannot load the state of one without"):
        tdi.DataLoader(range(9), distributed=True).load_state_dict(state)


def test_a_row_that_ends_the_iteration_is_an_error():
    class Ends(Squares):
        def __getitem__(self, index):
            raise StopIteration

    with pytest.raises(RuntimeError, match="Ends raised StopIteration"):
        list(tdi.DataLoader(Ends(3), distributed=True))


class Fails(Squares):
    def __getitem__(self, index):
        if index == 4:
            raise ValueError("bad row")
        return super().__getitem__(index)


@pytest.mark.both_pools(slow=True)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_row_that_fails_does_not_end_the_epoch(workers):
    loader = tdi.DataLoader(Fails(9), 2, distributed=True, num_workers=workers)
    iterator = iter(loader)
    assert [rows_of(next(iterator)) for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="bad row"):
        next(iterator)
    assert rows_of(next(iterator)) == [6, 7] and loader.last_info.step == 3
    assert rows_of(next(iterator)) == [8] and loader.last_info.valid == (1,)


def test_a_batch_that_cannot_be_cut_is_named():
    class Odd:
        pass

    with pytest.raises(ValueError, match='a Odd in the batches cannot be cut to 0 rows; use tail="padded"'):
        from torch_distinput.loader.paths._batches import without_rows

        without_rows({"x": torch.zeros(2), "odd": Odd()})


def two_loaders(rank):
    os.environ.pop("WORLD_SIZE", None)
    train, test = make("native", 20, rank, shuffle=True), make("python", 9, rank)
    if rank == 0:
        len(test)
    seen = [(rows_of(batch), [rows_of(inner) for inner in test]) for batch in train]
    return len(seen), [inner for _, inner in seen]


def test_loops_may_be_nested():
    ranks = returned(run_ranks(two_loaders, 2))
    assert [count for count, _ in ranks] == [4, 4]
    for inners in zip(*[inner for _, inner in ranks]):
        assert sorted(row for rank in inners for rows in rank for row in rows) == list(range(9))


STEPS, SLOW = 12, 0.03


class Rows(torch.utils.data.IterableDataset):
    """One row a step; those of rank 1 are slow."""

    def __init__(self, rank):
        self.rank = rank

    def __iter__(self):
        for row in range(STEPS):
            if self.rank == 1:
                time.sleep(SLOW)
            yield row


def verdicts(rank):
    loader = tdi.DataLoader(Rows(rank), batch_size=1, distributed=True)
    waited = []
    for _ in loader:
        waited.append(loader.stats().peer_seconds)
        last = (loader.verdict(), loader.verdict(all_ranks=True))
    return waited[-1] - waited[0], *last  # before the first step each waits for the other to start


def test_the_fast_rank_is_peer_bound_and_all_ranks_name_the_slow_one():
    (fast, its_verdict, one), (slow, _, other) = returned(run_ranks(verdicts, 2))
    assert fast > 0.5 * STEPS * SLOW and fast > 2 * slow
    assert its_verdict.bound == "peer"
    assert one == other and (one.rank, one.bound) == (1, "python")
    assert "wait for rank 1" in one.advice


def restart(rank, kind, n, batch, state, steps):
    loader = make(kind, n, rank, batch_size=batch, shuffle=True)
    if state is not None:
        loader.load_state_dict(state)
    return [row for batch in itertools.islice(loader, steps) for row in rows_of(batch)], loader.state_dict()


SLOW_ROWS = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("workers", "pipeline")]


@pytest.mark.parametrize("kind", ["native", "python", *SLOW_ROWS])
def test_a_run_goes_on_on_another_number_of_ranks(kind):
    n, state, seen = 97, None, []
    for world, batch, steps in ((4, 3, 3), (3, 4, 2), (2, 7, 1000)):
        results = returned(run_ranks(restart, world, kind, n, batch, state, steps, may_fork=True))
        seen += [row for rows, _ in results for row in rows]
        state = results[0][1]
    assert sorted(seen) == list(range(n))


def test_set_epoch_of_a_dataset_of_this_library_counts():
    dataset = tdi.Dataset.range(20).shuffle(seed=1)
    loader = tdi.DataLoader(dataset, 4, distributed=True)
    epochs = [[rows_of(batch) for batch in loader] for _ in range(3)]
    dataset.set_epoch(1)
    assert [rows_of(batch) for batch in loader] == epochs[1]
    assert loader.last_info.epoch == 1


@pytest.mark.parametrize("kind", ["native", "python", "workers"])
def test_set_epoch_counts_until_the_first_step(kind):
    """As with torch's samplers, which draw their order when they are asked for the first index."""
    epochs = [[rows_of(batch) for batch in make(kind, 20, 0, shuffle=True, seed=1)]]
    loader = make(kind, 20, 0, shuffle=True, seed=1)
    iterator = iter(loader)
    loader.sampler.set_epoch(1)
    epochs.append([rows_of(batch) for batch in iterator])
    assert epochs[0] != epochs[1] and loader.last_info.epoch == 1
    again = make(kind, 20, 0, shuffle=True, seed=1)
    again.set_epoch(1)
    iterator = iter(again)
    begun = [rows_of(next(iterator))]
    again.set_epoch(7)  # too late for this one
    assert begun + [rows_of(batch) for batch in iterator] == epochs[1]
    next(iter(again))
    assert again.last_info.epoch == 7


def test_set_epoch_leaves_the_rest_of_another_epoch_behind():
    """A state after the last step: a program that goes on with the next epoch gets all of it."""
    loader, again = (make("native", 20, 0, shuffle=True) for _ in range(2))
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    again.load_state_dict(loader.state_dict())
    iterator = iter(again)
    again.sampler.set_epoch(1)
    assert [rows_of(batch) for batch in iterator] == [rows_of(batch) for batch in loader]


@pytest.mark.parametrize("finished", [False, True])
def test_a_count_of_epochs_that_begins_anew_follows_the_state(finished):
    """Fabric counts those of its process."""
    loader, again = (make("native", 20, 0, shuffle=True) for _ in range(2))
    list(loader)
    iterator = iter(loader)
    for _ in range(len(loader) - 1):
        next(iterator)
    if finished:
        list(iterator)
    again.load_state_dict(loader.state_dict())
    rest = [] if finished else [[rows_of(batch) for batch in iterator]]
    rest += [[rows_of(batch) for batch in loader] for _ in range(2)]
    for epoch, expected in enumerate(rest):
        again.sampler.set_epoch(epoch)
        assert [rows_of(batch) for batch in again] == expected


def later_epochs(rank, kind, state):
    loader = make(kind, 29, rank, shuffle=True)
    if state is not None:
        loader.load_state_dict(state)
        return [[rows_of(batch) for batch in loader] for _ in range(3)]
    list(loader)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    return state, [[rows_of(batch) for batch in iterator], *([rows_of(batch) for batch in loader] for _ in range(2))]


@pytest.mark.parametrize("kind", ["native", "python", "pipeline"])
def test_later_epochs_after_a_resume_are_those_of_the_run_that_went_on(kind):
    first = returned(run_ranks(later_epochs, 2, kind, None))
    again = returned(run_ranks(later_epochs, 2, kind, first[0][0]))
    assert again == [epochs for _, epochs in first]
    assert len({str(epoch) for epoch in again[0]}) == 3
