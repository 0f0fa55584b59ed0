# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`gather`, `all_gather` and `all_reduce`, in what the recordings do not cover."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

import torch_distinput as tdi


@pytest.fixture
def strategy():
    return tdi.MirroredStrategy(["cpu"] * 3)


def replica_id() -> int:
    return tdi.get_replica_context().replica_id_in_sync_group


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_gather_joins_parts_of_any_size_in_replica_order(strategy, axis):
    whole = torch.arange(5 * 6 * 7).reshape(5, 6, 7)
    parts = whole.split([3, 0, whole.shape[axis] - 3], axis)
    assert torch.equal(strategy.gather(tdi.PerReplica(parts), axis), whole)


AXES = st.sampled_from([0, -2, (0,), (0, 1), [1, 0], (-1, 0)])
DTYPES = st.sampled_from([torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), DTYPES, AXES)
def test_reducing_parts_is_reducing_the_whole(sizes, dtype, axis):
    strategy = tdi.MirroredStrategy(["cpu"] * len(sizes))
    whole = torch.arange(3 * sum(sizes)).reshape(-1, 3).to(dtype)
    parts = tdi.PerReplica(whole.split(sizes))
    dims = (axis,) if isinstance(axis, int) else tuple(axis)
    total = strategy.reduce("SUM", parts, axis=axis)
    assert total.dtype == dtype
    assert torch.equal(total, whole.sum(dims, dtype=dtype))
    if dtype != torch.uint8:  # whose sums wrap around, and their means with them
        mean = strategy.reduce("MEAN", parts, axis=axis)
        torch.testing.assert_close(mean.double(), whole.double().mean(dims), equal_nan=True)


def test_gather_keeps_the_graph(strategy):
    parts = [torch.ones(size, requires_grad=True) for size in (2, 0, 1)]
    strategy.gather(tdi.PerReplica(parts), 0).sum().backward()
    assert [part.grad.tolist() for part in parts] == [[1, 1], [], [1]]


def test_a_plain_value_is_gathered_as_it_is(strategy):
    value = torch.ones(2)
    for one in (strategy, tdi.OneDeviceStrategy("cpu"), tdi.get_strategy()):
        assert one.gather(value, 0) is value


@pytest.mark.parametrize(
    ("values", "axis", "kind", "text"),
    [
        ([torch.ones(1), torch.ones(1), torch.ones(())], 0, ValueError, "replica 2 has a tensor of 0 dim"),
        ([torch.ones(1)] * 3, 1, ValueError, "`axis` must be a dimension of the values, but it is 1"),
        ([torch.ones(1)] * 3, -2, ValueError, "`axis` must be a dimension of the values, but it is -2"),
        ([torch.ones(1)] * 3, "0", TypeError, "`axis` must be an integer"),
        ([torch.ones(1)] * 3, True, TypeError, "`axis` must be an integer"),
        ([torch.ones(1, 2), torch.ones(1, 2), torch.ones(1, 3)], 0, ValueError, r"replica 2 a float32\[1, 3\]"),
        ([torch.ones(1), torch.ones(1), torch.ones(1, 1)], 0, ValueError, r"replica 2 a float32\[1, 1\]"),
        ([torch.ones(1), torch.ones(1).int(), torch.ones(1)], 0, ValueError, r"replica 1 a int32\[1\]"),
        ([torch.ones(1), 1, torch.ones(1)], 0, TypeError, "replica 1 has a int"),
    ],
)
def test_what_cannot_be_gathered(strategy, values, axis, kind, text):
    with pytest.raises(kind, match=f"gather: .*{text}"):
        strategy.gather(tdi.PerReplica(values), axis)


def test_gather_wants_leaves(strategy):
    with pytest.raises(TypeError, match="gather each leaf"):
        strategy.gather({"a": tdi.PerReplica([torch.ones(1)] * 3)}, 0)


def test_all_reduce_of_a_structure(strategy):
    """With the numbers of tf.distribute's own test: 1, [39, 2] and 3, [3, 41]."""
    two = tdi.MirroredStrategy(["cpu", "cpu"])
    value = (tdi.PerReplica([torch.tensor(1.0), torch.tensor(3.0)]),)
    value += ({"v": tdi.PerReplica([torch.tensor([39.0, 2.0]), torch.tensor([3.0, 41.0])])},)
    for op, wanted in (("sum", [4, [42, 43]]), (tdi.ReduceOp.MEAN, [2, [21, 21.5]])):
        scalar, vector = two.run(lambda v, op=op: tdi.get_replica_context().all_reduce(op, v), args=(value,))
        for replica in range(2):
            assert [scalar.values[replica].item(), vector["v"].values[replica].tolist()] == wanted


def test_every_replica_owns_its_result(strategy):
    def add(x):
        total = tdi.get_replica_context().all_reduce("SUM", x)
        total += replica_id()
        return total

    assert [value.item() for value in strategy.run(add, (tdi.PerReplica([torch.ones(())] * 3),)).values] == [3, 4, 5]


def test_all_gather_of_parts_of_different_sizes(strategy):
    got = strategy.run(lambda: tdi.get_replica_context().all_gather(torch.full((replica_id(), 2), replica_id()), 0))
    assert [value.tolist() for value in got.values] == [[[1, 1], [2, 2], [2, 2]]] * 3


def test_the_results_of_all_reduce_carry_gradients(strategy):
    weights = [torch.ones(1, requires_grad=True) for _ in range(3)]
    got = strategy.run(lambda w: tdi.get_replica_context().all_reduce("SUM", w * w), (tdi.PerReplica(weights),))
    strategy.reduce("SUM", got).backward()
    assert [weight.grad.item() for weight in weights] == [6, 6, 6]


def test_one_replica_gathers_and_reduces_itself():
    context = tdi.get_replica_context()
    assert context.all_reduce("SUM", 5) == 5
    assert context.all_gather("text", 0) == "text"
    one = tdi.OneDeviceStrategy("cpu")
    assert one.run(lambda: tdi.get_replica_context().all_reduce("MEAN", torch.tensor([1, 3]))).tolist() == [1, 3]


def test_different_calls_of_replicas_are_an_error(strategy):
    def differ():
        context = tdi.get_replica_context()
        return context.all_reduce("MEAN" if replica_id() == 2 else "SUM", torch.ones(1))

    with pytest.raises(ValueError, match=r"0 called all_reduce\(SUM\), but replica 2 called all_reduce\(MEAN\)"):
        strategy.run(differ)


def test_different_structures_of_replicas_are_an_error(strategy):
    def differ():
        value = torch.ones(1)
        return tdi.get_replica_context().all_reduce("SUM", value if replica_id() == 1 else [value])

    with pytest.raises(ValueError, match="structures differ"):
        strategy.run(differ)


def test_a_replica_that_leaves_wakes_the_others(strategy):
    def leave():
        if replica_id() == 1:
            raise KeyError("gone")
        return tdi.get_replica_context().all_gather(torch.ones(1), 0)

    with pytest.raises(KeyError, match="gone"):
        strategy.run(leave)


def test_all_reduce_of_an_unknown_op(strategy):
    with pytest.raises(ValueError, match="`op` must be 'SUM' or 'MEAN'"):
        strategy.run(lambda: tdi.get_replica_context().all_reduce("MAX", torch.ones(1)))
