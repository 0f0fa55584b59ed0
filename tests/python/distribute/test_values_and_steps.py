# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""PerReplica, InputOptions, `reduce` in what the recordings do not cover, and the loss helpers."""

import copy
import operator
import pickle
import warnings

import pytest
import torch

import torch_distinput as tdi

PAIR = tdi.PerReplica([torch.ones(2), torch.ones(1)])


def test_values_is_a_tuple_and_it_is_copied_and_pickled_whole():
    for one in (PAIR, copy.deepcopy(PAIR), pickle.loads(pickle.dumps(PAIR))):
        assert isinstance(one.values, tuple)
        assert [value.tolist() for value in one.values] == [[1.0, 1.0], [1.0]]
    assert bool(tdi.PerReplica([0, 0]))


@pytest.mark.parametrize(
    "use",
    [
        lambda: PAIR + 1,
        lambda: 1 - PAIR,
        lambda: PAIR @ PAIR,
        lambda: -PAIR,
        lambda: PAIR < 3,
        lambda: PAIR[0],
        lambda: float(PAIR),
        lambda: operator.index(PAIR),
        lambda: torch.tensor(PAIR),
    ],
)
def test_operators_say_how_to_use_it(use):
    with pytest.raises(TypeError, match="strategy.run"):
        use()


@pytest.mark.parametrize("use", [lambda: torch.add(PAIR, 1), lambda: torch.ones(2) + PAIR, lambda: torch.stack([PAIR])])
def test_torch_functions_say_how_to_use_it(use):
    with pytest.raises(ValueError, match="not inside a replica context.*strategy.run"):
        use()


def test_attributes_of_tensors_say_how_to_use_it():
    with pytest.raises(AttributeError, match="no attribute 'shape'.*strategy.run"):
        PAIR.shape  # noqa: B018


def test_input_options_accept_the_original_spellings():
    options = tdi.InputOptions(
        experimental_fetch_to_device=None,
        experimental_replication_mode=tdi.InputReplicationMode.PER_REPLICA,
        experimental_place_dataset_on_device=True,
        experimental_per_replica_buffer_size=3,
    )
    assert options == tdi.InputOptions(True, "PER_REPLICA", True, 3)
    assert options.experimental_per_replica_buffer_size == options.per_replica_buffer_size == 3
    assert hash(options) == hash(tdi.InputOptions(True, "PER_REPLICA", True, 3))


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("fetch_to_device", 1, TypeError),
        ("place_dataset_on_device", "yes", TypeError),
        ("replication_mode", "PER_DEVICE", ValueError),
        ("per_replica_buffer_size", -1, ValueError),
        ("per_replica_buffer_size", 1.5, TypeError),
        ("split", "even", ValueError),
        ("tail", "pad", ValueError),
        ("weights", [1.0, 0.0], ValueError),
        ("weights", [], ValueError),
        ("peer_timeout", 0, ValueError),
    ],
)
def test_input_options_name_the_wrong_field_and_its_value(field, value, kind):
    with pytest.raises(kind, match=f"InputOptions: `{field}` must be .*, but is ") as caught:
        tdi.InputOptions(**{field: value})
    assert repr(value) in str(caught.value)


def test_weights_need_the_balanced_split():
    assert tdi.InputOptions(split="balanced", weights=[1, 3]).weights == (1.0, 3.0)
    with pytest.raises(ValueError, match="`weights` needs `split` 'balanced'"):
        tdi.InputOptions(weights=[1, 3])


def test_unknown_fields_are_refused():
    with pytest.raises(TypeError, match="no field `experimental_split`"):
        tdi.InputOptions(experimental_split="tf")
    with pytest.raises(TypeError, match="no field `buffer`"):
        tdi.InputOptions(buffer=1)


def test_per_replica_pipelines_are_refused_by_distribute_dataset():
    with pytest.raises(NotImplementedError, match="only supported in `distribute_datasets_from_function`"):
        tdi.MirroredStrategy(["cpu"]).distribute_dataset(
            tdi.Dataset.range(2).batch(1), tdi.InputOptions(replication_mode="PER_REPLICA")
        )


TWO = tdi.MirroredStrategy(["cpu", "cpu"])


def test_reduce_of_something_else_than_sum_or_mean():
    with pytest.raises(ValueError, match="`op` must be 'SUM' or 'MEAN', but is 'MAX'"):
        TWO.reduce("MAX", PAIR)
    assert TWO.reduce(tdi.ReduceOp.SUM, PAIR, axis=0).item() == 3


@pytest.mark.parametrize("axis", ["x", True, 1.0, (0, "x")])
def test_reduce_over_an_axis_of_a_wrong_type(axis):
    with pytest.raises(TypeError, match="`axis` must be an integer"):
        TWO.reduce("SUM", PAIR, axis=axis)


def test_reduce_over_an_axis_twice_or_over_none():
    with pytest.raises(ValueError, match="twice"):
        TWO.reduce("SUM", PAIR, axis=(0, -1))
    same = tdi.PerReplica([torch.ones(2), torch.ones(2)])
    assert TWO.reduce("MEAN", same, axis=()).tolist() == [1.0, 1.0]


def test_reduce_of_values_that_are_no_tensors():
    with pytest.raises(TypeError, match="replica 0 has a int"):
        TWO.reduce("SUM", tdi.PerReplica([1, 2]))
    with pytest.raises(TypeError, match="leaves of a structure"):
        TWO.reduce("SUM", {"a": PAIR})


def test_reduce_of_different_dtypes():
    with pytest.raises(ValueError, match=r"int64\[1\] and replica 1 float32\[1\]"):
        TWO.reduce("SUM", tdi.PerReplica([torch.ones(1, dtype=torch.int64), torch.ones(1)]))


def test_reduce_keeps_the_graph():
    weights = torch.ones(2, requires_grad=True)
    TWO.reduce("MEAN", TWO.run(lambda x: (weights * x).sum(), (tdi.PerReplica([1.0, 3.0]),))).backward()
    assert weights.grad.tolist() == [2.0, 2.0]


def steps(rows: int, batch: int, replicas: int, **options):
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    dataset = tdi.Dataset.from_tensor_slices({"x": torch.arange(1.0, rows + 1)}).batch(batch)
    iterator = iter(strategy.distribute_dataset(dataset, tdi.InputOptions(**options)))
    for step in iterator:
        yield strategy, step["x"], iterator.step_info


@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("tail", ["zero_rows", "padded"])
def test_both_helpers_give_the_gradient_of_the_global_mean(replicas, tail):
    seen = 0
    for strategy, x, info in steps(rows=11, batch=4, replicas=replicas, split="balanced", tail=tail):
        rows = torch.arange(1.0, 12.0)[seen : seen + info.global_valid]
        seen += info.global_valid
        for helper in ("mean", "sum"):
            weight = torch.ones(1, requires_grad=True)

            def loss(x, weight=weight, helper=helper):
                replica = tdi.get_replica_context().replica_id_in_sync_group
                output = (weight * x)[: info.valid[replica]]
                if helper == "mean":
                    return tdi.scaled_mean(output.mean(), info, anchor=output)
                return tdi.distributed_mean(output.sum(), info)

            total = strategy.reduce("MEAN", strategy.run(loss, (x,)))
            total.backward()
            torch.testing.assert_close(total, rows.mean())
            torch.testing.assert_close(weight.grad, rows.mean().reshape(1))
    assert seen == 11


def test_scaled_mean_outside_run_needs_one_replica():
    _, x, info = next(steps(rows=2, batch=2, replicas=1))
    assert tdi.scaled_mean(x.mean(), info, x).item() == 1.5
    _, _, info = next(steps(rows=2, batch=2, replicas=2))
    with pytest.raises(ValueError, match="scaled_mean: `info` has entries for 2 replicas"):
        tdi.scaled_mean(torch.ones(()), info, torch.ones(1))


def test_replicas_read_step_info_at_the_same_time():
    strategy = tdi.MirroredStrategy(["cpu:0", "cpu:1"])
    steps = iter(strategy.distribute_dataset(tdi.Dataset.range(2000).batch(8)))

    def rows_of_the_step(_):
        return min(steps.step_info.global_valid for _ in range(10))

    assert all(strategy.run(rows_of_the_step, args=(step,)) == 8 for step in steps)


STRATEGY = tdi.MirroredStrategy(["cpu", "cpu"])


def distributed(dataset):
    return STRATEGY.distribute_dataset(dataset)


@pytest.mark.parametrize(
    ("dataset", "wanted"),
    [
        (tdi.Dataset.range(10).batch(4), 3),
        (tdi.Dataset.range(10).repeat().batch(4), tdi.INFINITE),
        (tdi.Dataset.range(10).filter(lambda number: number > 3).batch(4), tdi.UNKNOWN),
    ],
)
def test_cardinality_is_a_method_as_that_of_a_dataset(dataset, wanted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        number = distributed(dataset).cardinality()
    assert number == wanted == dataset.cardinality() and type(number) is int


@pytest.mark.parametrize(
    "use",
    [
        lambda number: number == 3,
        lambda number: number != 2,
        lambda number: number > 0 and bool(number),
        lambda number: number + 1 == 4 and 6 // number == 2,
        lambda number: str(number) == repr(number) == f"{number}" == "3",
        lambda number: int(number) == 3 and operator.index(number) == 3 and {3: "three"}[number] == "three",
    ],
)
def test_cardinality_without_a_call_is_still_the_number_and_warns(use):
    number = distributed(tdi.Dataset.range(10).batch(4)).cardinality
    with pytest.warns(DeprecationWarning, match="write `cardinality\\(\\)`") as told:
        assert use(number)
    assert {one.filename for one in told} == {__file__}
    assert isinstance(number, int) and len(range(number)) == copy.copy(number)() == 3


def test_a_dataset_and_its_iterator_print_where_they_are_from_and_stand():
    dataset = distributed(tdi.Dataset.range(10).batch(4))
    assert repr(dataset) == (
        "DistributedDataset(Dataset(range(start=0, stop=10, step=1).batch(batch_size=4, drop_remainder=False)), "
        "MirroredStrategy('cpu', 'cpu'))"
    )
    steps = iter(dataset)
    assert repr(steps) == "DistributedIterator(before its first step)"
    next(steps), next(steps)
    assert repr(steps) == "DistributedIterator(epoch 0, step 2)"
    made = STRATEGY.distribute_datasets_from_function(lambda context: tdi.Dataset.range(2))
    assert repr(made) == "DistributedDataset(MirroredStrategy('cpu', 'cpu'))"
    assert repr(object.__new__(tdi.DistributedDataset)) == "DistributedDataset()"


def test_rows_that_a_repeated_tail_cannot_join_name_the_op_and_the_shapes():
    lengths = tdi.Dataset.range(3).map(
        lambda length: torch.ones(int(length) + 1), element_spec=tdi.TensorSpec((None,), torch.float32)
    )
    options = tdi.InputOptions(tail="repeat")
    steps = tdi.MirroredStrategy(["cpu"]).distribute_dataset(lengths.padded_batch(2), options)
    with pytest.raises(tdi.FailedPreconditionError, match=r"distribute_dataset: .* one shape .* \(3,\) .* \(2,\)"):
        list(steps)
