# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""tdi.random(): the numbers of a row depend on seed, epoch, row and op, and on nothing else."""

import threading
from collections import Counter

import pipelines
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_distinput as tdi


def draw() -> int:
    return int(torch.randint(0, 2**62, (), generator=tdi.random()))


def with_draw(row: torch.Tensor) -> dict:
    return {"row": row, "drawn": torch.tensor(draw())}


def drawn(dataset: tdi.Dataset, epoch: int = 0, seed: int = 5, stream_only: bool = False) -> dict[int, int]:
    """The number that each row drew."""
    rows = dataset._native.iterate(epoch=epoch, seed=seed, stream_only=stream_only)
    return {int(element["row"]): int(element["drawn"]) for element in rows}


ROWS = tdi.Dataset.range(40)
REFERENCE = {}


@given(
    st.sampled_from(["none", "shuffle", "filter", "repeat", "prefetch", "skip", "batch"]),
    st.sampled_from([None, 1, 2, 4, -1]),
    st.booleans(),
    st.booleans(),
)
def test_a_row_draws_the_same_on_every_path_and_thread(after, calls, deterministic, stream_only):
    # The op's place in the pipeline, counted from the end, is part of the key: all pipelines have two ops after it.
    ops = {
        "none": lambda ds: ds.take(-1).skip(0),
        "shuffle": lambda ds: ds.shuffle(seed=1).skip(0),
        "filter": lambda ds: ds.filter(lambda element: element["row"] % 2 == 0).skip(0),
        "repeat": lambda ds: ds.take(-1).skip(0).with_options(tdi.Options(num_threads=2)),
        "prefetch": lambda ds: ds.take(-1).skip(0).prefetch(3),
        "skip": lambda ds: ds.skip(7).take(9),
        "batch": lambda ds: ds.batch(3).unbatch(),
    }
    reference = REFERENCE or drawn(ROWS.map(with_draw).take(-1).skip(0))
    REFERENCE.update(reference)
    assert len(set(reference.values())) == len(reference) == 40
    dataset = ops[after](ROWS.map(with_draw, num_parallel_calls=calls, deterministic=deterministic))
    found = drawn(dataset, stream_only=stream_only)
    assert found and found == {row: reference[row] for row in found}


def test_rows_of_a_batch_are_split_without_changing_what_they_drew():
    dataset = ROWS.map(with_draw).batch(8)
    dataset = dataset.with_options(tdi.Options(seed=5))
    plain = {int(r): int(d) for batch in dataset for r, d in zip(batch["row"], batch["drawn"])}
    for replicas in (1, 2, 3):
        dataset.set_epoch(0)
        found = {}
        strategy = tdi.MirroredStrategy(["cpu"] * replicas)
        for step in strategy.distribute_dataset(dataset):
            parts = strategy.local_results(step["row"]), strategy.local_results(step["drawn"])
            for rows, draws in zip(*parts):
                found |= {int(a): int(b) for a, b in zip(rows, draws)}
        assert found == plain


def test_draws_change_with_epoch_and_seed():
    dataset = ROWS.map(with_draw)
    results = [drawn(dataset), drawn(dataset, epoch=1), drawn(dataset, seed=6)]
    assert len({tuple(result.values()) for result in results}) == 3


def test_ops_draw_independently_of_each_other():
    dataset = ROWS.map(with_draw).map(lambda element: element | {"again": torch.tensor(draw())})
    assert all(element["drawn"] != element["again"] for element in dataset)


def test_each_round_of_repeat_draws_anew():
    draws = [int(element["drawn"]) for element in ROWS.take(3).map(with_draw).repeat(2)]
    assert len(set(draws)) == 6


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("source", ["slices", "generator"])
def test_a_resumed_iterator_draws_what_it_would_have_drawn(source, calls):
    rows = pipelines.SOURCES[source](9).map(lambda element: element["id"])
    tdi.testing.assert_resumable(rows.map(with_draw, num_parallel_calls=calls))
    tdi.testing.assert_resumable(rows.batch(2).map(with_draw, num_parallel_calls=calls).prefetch(2))
    tdi.testing.assert_paths_agree(rows.map(with_draw))


def test_other_callables_draw_too():
    kept = ROWS.filter(lambda row: draw() % 2 == 0)
    flat = ROWS.take(3).flat_map(lambda row: tdi.Dataset.from_tensors(draw()))
    parallel = ROWS.take(3).interleave(
        lambda row: tdi.Dataset.from_tensors(draw()), cycle_length=1, num_parallel_calls=1
    )
    bucketed = ROWS.take(6).batch(1).bucket_by_length(lambda row: 1 + draw() % 2, [2], [2, 2])
    for dataset in (kept, flat, parallel, bucketed):
        tdi.testing.assert_resumable(dataset)
    assert 0 < len(list(kept)) < 40


def test_one_row_has_one_generator_that_goes_on():
    def twice(row):
        assert tdi.random() is tdi.random()
        return torch.tensor([draw(), draw()])

    first, second = next(iter(ROWS.map(twice)))
    assert first != second


def test_a_dataset_read_inside_a_callable_has_rows_of_its_own():
    inner = tdi.Dataset.range(2).map(lambda row: torch.tensor(draw())).with_options(tdi.Options(seed=1))

    def outer(row):
        before = tdi.random()
        inner.set_epoch(0)
        values = torch.stack(list(inner))
        assert tdi.random() is before
        return values

    results = list(ROWS.take(2).map(outer))
    assert torch.equal(results[0], results[1])


def test_outside_of_a_callable_there_is_no_row():
    with pytest.raises(tdi.FailedPreconditionError, match="random: there is no current row; call it inside a function"):
        tdi.random()
    list(ROWS.map(with_draw))
    with pytest.raises(RuntimeError):
        tdi.random()

    failures = []

    def on_another_thread(row):
        thread = threading.Thread(target=lambda: failures.append(pytest.raises(RuntimeError, tdi.random)))
        thread.start()
        thread.join()
        return row

    list(ROWS.take(1).map(on_another_thread))
    assert len(failures) == 1


def test_an_exception_leaves_no_row_behind():
    def fails(row):
        draw()
        raise KeyError("row")

    with pytest.raises(KeyError):
        list(ROWS.map(fails))
    with pytest.raises(RuntimeError):
        tdi.random()


def source(number: int, rows: int) -> tdi.Dataset:
    return tdi.Dataset.from_tensor_slices(torch.arange(rows) + 1000 * number).shuffle(seed=number)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 3), st.floats(0.1, 5)), min_size=1, max_size=3),
    st.integers(0, 40),
)
def test_each_dataset_is_drawn_to_its_end_and_counted(sources, taken):
    def make() -> tdi.Dataset:
        datasets = [source(number, rows).repeat(times) for number, (rows, times, _) in enumerate(sources)]
        return tdi.Dataset.sample_from_datasets(datasets, [weight for _, _, weight in sources], seed=9)

    dataset = make()
    whole = [int(row) for row in dataset]
    times = {1000 * n + row: times for n, (rows, times, _) in enumerate(sources) for row in range(rows)}
    assert Counter(whole) == Counter(times)
    dataset.set_epoch(0)
    iterator = iter(dataset)
    seen = [int(next(iterator)) for _ in range(min(taken, len(whole)))]
    counts = [sum(row // 1000 == number for row in seen) for number in range(len(sources))]
    assert iterator.stats().sampled == tuple(counts)
    resumed = iter(make())
    resumed.load_state_dict(iterator.state_dict())
    assert resumed.stats().sampled == tuple(counts)
    assert seen + [int(row) for row in resumed] == whole
    assert resumed.stats().sampled == tuple(rows * times for rows, times, _ in sources)


def test_an_endless_mixture_keeps_to_its_weights_and_read_ahead_does_not_count():
    endless = tdi.Dataset.sample_from_datasets([source(0, 3).repeat(), source(1, 400).repeat()], [3, 1], seed=2)
    iterator = iter(endless.batch(10).prefetch(4))
    rows = torch.cat([next(iterator) for _ in range(400)])
    counts = [int((rows < 1000).sum()), int((rows >= 1000).sum())]
    assert iterator.stats().sampled == tuple(counts)
    assert abs(counts[0] / 4000 - 0.75) < 0.03  # four standard deviations
    assert iter(tdi.Dataset.range(3)).stats().sampled == ()


def test_replicas_report_what_was_delivered():
    mixed = tdi.Dataset.sample_from_datasets([source(0, 30), source(1, 10)], [3, 1], seed=2).batch(8)
    steps = iter(tdi.MirroredStrategy(["cpu", "cpu"]).distribute_dataset(mixed))
    rows = torch.cat([part for _ in range(3) for part in next(steps).values])
    assert steps.stats().sampled == (int((rows < 1000).sum()), int((rows >= 1000).sum()))


@pytest.mark.parametrize("streams", [False, True])
def test_the_counts_follow_from_the_position(streams):
    first = source(0, 30).filter(lambda row: row >= 0) if streams else source(0, 30)
    dataset = tdi.Dataset.sample_from_datasets([first, source(1, 10)], seed=2)
    iterator = iter(dataset)
    rest = [int(row) for row in iterator][5:]
    dataset.set_epoch(0)
    iterator = iter(dataset)
    for _ in range(5):
        next(iterator)
    state = iterator.state_dict()
    del state["position"]["sampled"]
    resumed = iter(dataset)
    resumed.load_state_dict(state)
    assert [int(row) for row in resumed] == rest
    assert resumed.stats().sampled == (30, 10)
