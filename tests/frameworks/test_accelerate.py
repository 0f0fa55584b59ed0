# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Accelerate on two real processes: every row once, equal steps, metrics of all rows, resume in mid-epoch."""

import pytest
import torch
from launched import launch, launched
from processes import run_script
from ranks import run_example, run_ranks
from torch.utils import data
from torch.utils.data import TensorDataset
from torch_datasets import Indices, SizedIndexStream

import torch_distinput as tdi

accelerate = pytest.importorskip("accelerate")


def rows(size):
    return TensorDataset(torch.arange(size))


def accelerator_of(rank, **config):
    from accelerate.utils import DataLoaderConfiguration, set_seed

    set_seed(5)
    steps = config.pop("gradient_accumulation_steps", 1)
    result = accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=steps, dataloader_config=DataLoaderConfiguration(**config)
    )
    assert result.num_processes == 2 and result.process_index == rank
    return result


def values(batch):
    return (batch[0] if isinstance(batch, (list, tuple)) else batch).tolist()


def epoch(accelerator, loader):
    """What this rank saw, by steps; what `gather_for_metrics` returned; where the epoch was said to end."""
    steps, gathered, ends = [], [], []
    length = len(loader)
    for batch in loader:
        steps.append(values(batch))
        gathered += accelerator.gather_for_metrics(torch.tensor(values(batch), dtype=torch.int64)).tolist()
        ends.append(accelerator.gradient_state.end_of_dataloader)
    assert not accelerator.gradient_state.in_dataloader and len(steps) == length
    return steps, gathered, ends


def check_epochs(by_rank, size, ordered=False):
    """Of both ranks' `epoch`: all rows once, equal steps, one end."""
    for (mine, gathered, ends), (others, same, _) in zip(*by_rank):
        assert sorted(row for step in mine + others for row in step) == list(range(size))
        assert len(mine) == len(others)
        assert gathered == same == [row for pair in zip(mine, others) for part in pair for row in part]
        assert not ordered or gathered == list(range(size))
        assert ends == [False] * (len(mine) - 1) + [True]


def prepared_epochs(rank, makers, config):
    """Two epochs of each loader."""
    accelerator = accelerator_of(rank, **config)
    result = []
    for make, size in makers:
        loader = make(size)
        prepared = accelerator.prepare(loader)
        assert isinstance(prepared, tdi.DataLoader) and accelerator.prepare(prepared) is prepared
        assert (prepared is loader) == bool(loader.distributed)
        result.append(([epoch(accelerator, prepared) for _ in range(2)], size, prepared.explain()))
    return result


def distributed(size):
    return tdi.DataLoader(rows(size), batch_size=32, distributed=True)


def shuffled(size):
    return tdi.DataLoader(rows(size), batch_size=32, shuffle=True, distributed=True, seed=1)


def unseeded(size):
    return tdi.DataLoader(rows(size), batch_size=8, shuffle=True, distributed=True)


def plain(size):
    return tdi.DataLoader(rows(size), batch_size=8)


def plain_shuffled(size):
    return tdi.DataLoader(rows(size), batch_size=8, shuffle=True)


def of_python(size):
    return tdi.DataLoader(Indices(size), batch_size=8, shuffle=True)


def with_workers(size):
    return tdi.DataLoader(Indices(size), batch_size=8, shuffle=True, num_workers=1)


def sampled(size):
    return tdi.DataLoader(Indices(size), batch_size=8, sampler=data.SubsetRandomSampler(range(size)))


def batch_sampled(size):
    batches = data.BatchSampler(range(size), 5, False)
    return tdi.DataLoader(Indices(size), batch_sampler=list(batches))


def streamed(size):
    return tdi.DataLoader(SizedIndexStream(size), batch_size=8)


def pipeline(size):
    return tdi.DataLoader(tdi.Dataset.range(size), batch_size=8)


def test_a_distributed_loader_is_left_as_it_is_and_exact():
    makers = [(distributed, 1001), (shuffled, 1001), (distributed, 961), (distributed, 1), (distributed, 64)]
    by_rank = launch(prepared_epochs, makers, {})
    for (mine, size, _), (others, *_) in zip(*by_rank):
        check_epochs((mine, others), size)
        assert len(mine[0][0]) == -(-size // 64)


def test_the_import_line_alone_distributes_every_kind_of_data():
    makers = [
        (plain, 101),
        (plain_shuffled, 97),
        (of_python, 101),
        (with_workers, 33),
        (sampled, 50),
        (batch_sampled, 23),
        (streamed, 97),
        (pipeline, 97),
        (plain, 1),
    ]
    by_rank = launch(prepared_epochs, makers, {"even_batches": True})
    for (make, _), (mine, size, why), (others, *_) in zip(makers, *by_rank):
        check_epochs((mine, others), size, ordered=make in (plain, streamed, pipeline))
        if make in (plain_shuffled, of_python, sampled):
            assert mine[0][0] != mine[1][0]
        assert why.startswith("path: distributed, native") == (make in (plain, plain_shuffled, pipeline))


def options(rank):
    accelerator = accelerator_of(rank, split_batches=True, dispatch_batches=False, even_batches=False)
    loader = accelerator.prepare(plain(50))
    steps, gathered, _ = epoch(accelerator, loader)
    dropping = accelerator.prepare(tdi.DataLoader(rows(50), batch_size=8, drop_last=True))
    return steps, gathered, epoch(accelerator, dropping)[1]


def test_split_batches_makes_the_batch_size_that_of_all_processes():
    (mine, gathered, kept), (others, _, _) = launch(options)
    assert [len(a) + len(b) for a, b in zip(mine, others)] == [8] * 6 + [2]
    assert gathered == list(range(50))
    assert kept == list(range(48))


def differing(rank):
    accelerator = accelerator_of(rank)
    order = list(range(50)) if rank == 0 else list(range(49, -1, -1))
    loader = accelerator.prepare(tdi.DataLoader(Indices(50), batch_size=8, sampler=order))
    with pytest.raises(tdi.DistributedDatasetError, match="agree on content"):
        next(iter(loader))
    return True


def test_a_sampler_that_differs_between_ranks_is_an_error():
    assert launch(differing) == [True, True]


def padded(rank):
    accelerator = accelerator_of(rank)
    loader = accelerator.prepare(tdi.DataLoader(rows(21), batch_size=4, distributed=True, tail="padded"))
    as_tensors, as_objects = [], []
    for (batch,) in loader:
        as_tensors += accelerator.gather_for_metrics({"row": batch})["row"].tolist()
        as_objects += accelerator.gather_for_metrics([str(row) for row in batch.tolist()])
    return as_tensors, as_objects


def test_gathered_rows_are_without_padding():
    for as_tensors, as_objects in launch(padded):
        assert as_tensors == list(range(21))
        assert as_objects == [str(row) for row in range(21)]


def left_out(rank):
    accelerator = accelerator_of(rank)
    loader = tdi.DataLoader(rows(21), batch_size=4, distributed=True)
    return epoch(accelerator, loader)


def test_a_loader_left_out_of_prepare_is_gathered_exactly():
    check_epochs([[result] for result in launch(left_out)], 21, ordered=True)


def nested(rank):
    accelerator = accelerator_of(rank, gradient_accumulation_steps=3)
    train, test = accelerator.prepare(plain(60), plain(33))
    state, model = accelerator.gradient_state, accelerator.prepare(torch.nn.Linear(1, 1))
    synced, gathered = [], []
    for step, (batch,) in enumerate(train):
        assert state.active_dataloader is train
        with accelerator.accumulate(model):
            accelerator.backward(model(batch[:, None].float()).sum())
            synced.append(accelerator.sync_gradients)
        if step == 1:
            for (tested,) in test:
                assert state.active_dataloader is test
                gathered += accelerator.gather_for_metrics(tested).tolist()
        if step == 2:
            for _ in test:
                break
        assert state.remainder == 0
        assert state.active_dataloader is train and state.end_of_dataloader == (step == len(train) - 1)
    assert not state.in_dataloader
    return synced, gathered


def test_accumulation_ends_with_the_epoch_around_other_loaders():
    for synced, gathered in launch(nested):
        assert synced == [False, False, True, True]
        assert gathered == list(range(33))


def skipping(rank, make, size, skip):
    accelerator = accelerator_of(rank)
    loader = accelerator.prepare(make(size))
    whole = [epoch(accelerator, loader)[0] for _ in range(2)]
    fresh = accelerate.skip_first_batches(accelerator.prepare(make(size)), skip)
    fresh.set_epoch(0)
    again = accelerator.skip_first_batches(loader, skip)
    again.set_epoch(1)
    lengths = len(again), len(loader)
    rest = epoch(accelerator, again)[0]
    return whole, rest, fresh.dataset is not loader.dataset, lengths, epoch(accelerator, loader)[0]


@pytest.mark.parametrize(
    "make", [shuffled, unseeded, plain, plain_shuffled, of_python, sampled, streamed, batch_sampled, pipeline]
)
def test_skipped_steps_are_those_of_the_same_epoch(make):
    for whole, rest, _, lengths, after in launch(skipping, make, 200, 2):
        assert rest == whole[1][2:]
        assert lengths == (len(whole[1]) - 2, len(whole[1]))
        assert len(after) == len(whole[0])


def training(rank, folder, make, size, stop, resume, skips=False):
    accelerator = accelerator_of(rank)
    loader = accelerator.prepare(make(size))
    seen = []
    if resume:
        torch.manual_seed(rank + 77)
        accelerator.load_state(folder)
    first = accelerator.skip_first_batches(loader, stop[1] + 1) if skips else loader
    for number in range(stop[0] if resume else 0, 3):
        for step, batch in enumerate(first if number == stop[0] else loader):
            seen.append(values(batch))
            if not resume and (number, step) == stop:
                seen.clear()
                accelerator.save_state(folder)
                torch.manual_seed(rank)
    return seen


@pytest.mark.parametrize("make", [shuffled, plain_shuffled, of_python, sampled, streamed])
def test_a_saved_state_resumes_in_mid_epoch(make, tmp_path):
    through = launch(training, str(tmp_path), make, 100, (1, 0), False)
    assert launch(training, str(tmp_path), make, 100, (1, 0), True) == through


def test_skipping_what_a_loaded_state_has_passed_skips_it_once(tmp_path):
    through = launch(training, str(tmp_path), of_python, 100, (1, 2), False)
    assert launch(training, str(tmp_path), of_python, 100, (1, 2), True, True) == through


def before_a_state(rank, make):
    accelerator = accelerator_of(rank)
    loader = accelerator.prepare(make(100))
    steps = [values(batch) for batch in loader]
    loader.set_epoch(0)
    batches = iter(loader)
    next(batches), next(batches)
    loader.load_state_dict(loader.state_dict())
    return steps, [values(batch) for batch in accelerator.skip_first_batches(loader, 1)]


def test_skipping_goes_back_where_the_data_can():
    for steps, rest in launch(before_a_state, of_python):
        assert rest == steps[1:]
    for result in run_ranks(launched, 2, before_a_state, 2, streamed):
        assert isinstance(result, ValueError) and "`num_batches` must be at least 2" in str(result)


def gathered(rank, make, **config):
    """As in Accelerate's example multi_process_metrics.py: rows are gathered, and what was repeated is cut off."""
    accelerator = accelerator_of(rank, **config)
    loader = accelerator.prepare(make())
    seen, found = 0, []
    for step, batch in enumerate(loader):
        batch = batch[0] if isinstance(batch, list) else batch
        losses = accelerator.gather(batch.float().sum())
        assert len(losses) == 2
        got = accelerate.utils.gather({"rows": batch})["rows"] if step % 2 else accelerator.gather(batch)
        got = got[: len(loader.dataset) - seen] if step == len(loader) - 1 else got
        seen += len(got)
        found += got.tolist()
    return found


def uneven():
    return tdi.DataLoader(rows(41), batch_size=16)


def without_rows():
    return tdi.DataLoader(rows(33), batch_size=16, distributed=True)


def of_streams():
    return tdi.DataLoader(SizedIndexStream(11), batch_size=4)


def even():
    return tdi.DataLoader(rows(42), batch_size=16)


def repeating():
    return tdi.DataLoader(rows(41), batch_size=16, distributed=True, tail="repeat")


@pytest.mark.parametrize("make", [uneven, without_rows, of_streams])
def test_gathering_uneven_parts_is_an_error_that_names_the_cure(make):
    for result in run_ranks(launched, 2, gathered, 2, make):
        assert isinstance(result, ValueError) and "the processes have [" in str(result)
        assert all(
            name in str(result) for name in ("`gather`", "`accelerator.gather_for_metrics`", "`even_batches=True`")
        )


@pytest.mark.parametrize("make", [even, repeating])
def test_gathering_equal_parts_works_as_in_accelerates_example(make):
    assert launch(gathered, make) == [list(range(42 if make is even else 41))] * 2


class Endless(tdi.DataLoader):
    """Keeps one iterator over all epochs, as yolov5's and timm's loaders do."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.iterator = super().__iter__()

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


def endless(rank):
    accelerator = accelerator_of(rank)
    with pytest.raises(ValueError, match="a Endless cannot be distributed later, because its `iterator` is"):
        accelerator.prepare(Endless(rows(9), batch_size=4))
    loader = accelerator.prepare(Endless(rows(9), batch_size=4, distributed=True))
    return [accelerator.gather_for_metrics(batch).tolist() for (batch,) in loader]


def test_a_loader_that_keeps_an_iterator_is_not_distributed_later():
    assert launch(endless) == [[list(range(8)), [8]]] * 2


def test_one_process_needs_no_group():
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    try:
        accelerator = accelerate.Accelerator(cpu=True)
        loader = accelerator.prepare(plain(21))
        steps, gathered, ends = epoch(accelerator, loader)
        assert gathered == [row for step in steps for row in step] == list(range(21))
        assert ends == [False, False, True]
        torchs = accelerator.prepare(data.DataLoader(rows(21), 8))
        assert type(torchs) is accelerate.data_loader.DataLoaderShard
        assert sum(map(values, accelerator.skip_first_batches(torchs, 1)), []) == list(range(8, 21))
    finally:
        AcceleratorState._reset_state(True)
        GradientState._reset_state()


def meshed(rank):
    from torch.distributed.device_mesh import init_device_mesh

    from torch_distinput.frameworks._accelerate import prepared

    accelerator = accelerate.Accelerator(cpu=True)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp_shard", "tp"))
    torch.manual_seed(rank)  # the seed that counts is that of the first process
    loader = prepared(plain_shuffled(41), None, mesh=mesh)
    return epoch(accelerator, loader)[:2]


def test_ranks_of_one_data_coordinate_get_the_same_rows():
    of_ranks = launch(meshed, world=4)
    assert of_ranks[0] == of_ranks[1] and of_ranks[2] == of_ranks[3]
    (mine, gathered), (others, _) = of_ranks[0], of_ranks[2]
    assert sorted(row for step in mine + others for row in step) == sorted(gathered) == list(range(41))


def test_the_library_imports_no_framework():
    names = ("accelerate", "transformers", "lightning", "datasets")
    done = run_script(f"import sys; print([name for name in {names} if name in sys.modules])")
    assert done.stdout.strip() == "[]", done.stderr


def test_the_example_counts_every_row():
    output = run_example("07_accelerate.py", world=2)
    assert output.count("1001 of 1001 rows, each once, in 16 steps") == 6
    assert "evaluated 203 of 203 test rows" in output
