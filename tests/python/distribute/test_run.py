# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`Strategy.run`: one thread for each replica, with the caller's torch state; results are regrouped."""

import collections
import contextvars
import os
import signal
import threading
import time

import pytest
import torch

import torch_distinput as tdi
from torch_distinput._C import ExchangeBroken
from torch_distinput.distribute import _replica_exchange

Point = collections.namedtuple("Point", "x y")


@pytest.fixture
def strategy():
    return tdi.MirroredStrategy(["cpu"] * 3)


def replica_id() -> int:
    return tdi.get_replica_context().replica_id_in_sync_group


def test_each_replica_has_its_own_context_and_thread(strategy):
    got = strategy.run(lambda: (replica_id(), tdi.get_replica_context().num_replicas_in_sync, threading.get_ident()))
    assert got[0].values == (0, 1, 2)
    assert got[1] == 3
    assert len({*got[2].values, threading.get_ident()}) == 4


def test_each_replica_keeps_its_thread_between_runs(strategy):
    assert strategy.run(threading.get_ident).values == strategy.run(threading.get_ident).values


def test_one_replica_runs_in_the_callers_thread():
    assert tdi.OneDeviceStrategy("cpu").run(threading.get_ident) == threading.get_ident()


def test_per_replica_arguments_are_replaced_at_any_depth(strategy):
    x = tdi.PerReplica([1, 2, 3])
    got = strategy.run(
        lambda a, b, k: [a["deep"][0], b.x, k], ({"deep": [x]}, Point(x, 7)), {"k": collections.OrderedDict(z=x)}
    )
    assert got[0].values == got[1].values == got[2]["z"].values == (1, 2, 3)


def test_arguments_without_per_replica_are_passed_as_they_are(strategy):
    plain = {"a": [1, 2]}
    assert strategy.run(lambda value: value is plain, (plain,)) is True


def test_results_are_regrouped_leaf_by_leaf_and_types_are_kept(strategy):
    got = strategy.run(lambda: {"p": Point([replica_id()], None), "t": (torch.Size([replica_id()]),)})
    assert isinstance(got["p"], Point)
    assert got["p"].x[0].values == (0, 1, 2)
    assert got["p"].y is None
    assert got["t"][0].values == (torch.Size([0]), torch.Size([1]), torch.Size([2]))


def test_the_same_object_on_every_replica_stays_itself(strategy):
    shared = torch.zeros(3)
    assert strategy.run(lambda: [shared])[0] is shared


def test_different_structures_are_refused(strategy):
    with pytest.raises(ValueError, match="replica 0 has a list of 0, replica 1 a list of 1"):
        strategy.run(lambda: [1] * replica_id())
    with pytest.raises(ValueError, match=r"keys differ: replica 0 has \[0\], replica 1 \[1\]"):
        strategy.run(lambda: {replica_id(): 1})


@pytest.mark.parametrize("args", [1, {"a": 1}, torch.ones(2)])
def test_args_must_be_a_list_or_tuple(strategy, args):
    for any_strategy in (strategy, tdi.get_strategy()):
        with pytest.raises(ValueError, match=f"must be a list or tuple, got {type(args).__name__}"):
            any_strategy.run(lambda x: x, args)


def test_kwargs_must_be_a_mapping(strategy):
    with pytest.raises(TypeError, match="`kwargs` must be a dict, but is a list"):
        strategy.run(lambda: 0, (), [1])


def test_a_per_replica_of_another_size_is_refused(strategy):
    with pytest.raises(ValueError, match="2 values was given to a strategy of 3"):
        strategy.run(lambda x: x, (tdi.PerReplica([1, 2]),))


def torch_state() -> tuple:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
    )


@pytest.mark.parametrize(
    ("context", "wanted"),
    [
        (torch.enable_grad, (True, False, False)),
        (torch.no_grad, (False, False, False)),
        (torch.inference_mode, (False, True, False)),
        (lambda: torch.autocast("cpu", dtype=torch.float16), (True, False, torch.float16)),
    ],
)
def test_grad_inference_and_autocast_modes_go_along_and_do_not_stay(strategy, context, wanted):
    with context():
        assert strategy.run(torch_state) == wanted
    assert strategy.run(torch_state) == (True, False, False)


def test_the_cache_of_casts_and_torchs_modes_go_along(strategy):
    with torch.autocast("cpu", cache_enabled=False), torch.device("meta"):
        assert strategy.run(lambda: (torch.is_autocast_cache_enabled(), torch.ones(1).is_meta)) == (False, True)
    assert strategy.run(lambda: (torch.is_autocast_cache_enabled(), torch.ones(1).is_meta)) == (True, False)


def test_torchs_profiler_sees_what_replicas_do(strategy):
    with torch.profiler.profile() as profile:
        strategy.run(lambda: torch.eye(2) @ torch.eye(2))
    assert sum(event.count for event in profile.key_averages() if event.key == "aten::mm") == 3


def test_the_casts_of_weights_are_made_anew_after_a_step(strategy):
    """The optimizer may step between two calls of `run` in one autocast region."""
    layer = torch.nn.Linear(1, 1, bias=False)
    x = torch.ones(1, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for value in (1.0, 2.0):
            layer.weight.data.fill_(value)
            assert [y.item() for y in strategy.run(lambda: layer(x)).values] == [value] * 3


def test_context_variables_go_along_and_changes_do_not_come_back(strategy):
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("mine")

    def swap():
        before = variable.get()
        variable.set(replica_id())
        return before, variable.get()

    got = strategy.run(swap)
    assert got[0] == "mine"
    assert got[1].values == (0, 1, 2)
    assert variable.get() == "mine"


def test_an_error_keeps_its_type_and_names_the_replica(strategy):
    def fail():
        if replica_id() > 0:
            raise KeyError(replica_id())

    with pytest.raises(KeyError) as caught:
        strategy.run(fail)
    assert caught.value.args == (1,)
    assert getattr(caught.value, "__notes__", ["raised in replica 1 of 3"]) == ["raised in replica 1 of 3"]
    assert strategy.run(lambda: 1) == 1


def meet(value, join=lambda values: [list(values)] * 3):
    context = tdi.get_replica_context()
    return context._exchange.exchange(context.replica_id_in_sync_group, value, join)


def test_replicas_exchange_values_round_after_round(strategy):
    got = strategy.run(lambda: [meet(10 * step + replica_id()) for step in range(50)])
    # Every replica returned the same object, so it is not wrapped.
    assert got == [[10 * step + replica for replica in range(3)] for step in range(50)]


def test_a_raise_wakes_the_replicas_that_wait_for_it(strategy):
    def fail_or_wait():
        if replica_id() == 2:
            raise ArithmeticError("bad step")
        return meet(1)

    with pytest.raises(ArithmeticError, match="bad step"):
        strategy.run(fail_or_wait)


def test_a_return_wakes_the_replicas_that_wait_for_it(strategy):
    with pytest.raises(ExchangeBroken, match="replica 1 raised or returned"):
        strategy.run(lambda: None if replica_id() == 1 else meet(1))


def press_ctrl_c_after(event):
    def press():
        event.wait(30)
        time.sleep(0.1)  # until the main thread waits for the replicas
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()


def test_ctrl_c_ends_run_while_values_are_joined(strategy):
    joining, released, in_time = threading.Event(), threading.Event(), []

    def join(values):
        joining.set()
        in_time.append(released.wait(10))
        return values

    press_ctrl_c_after(joining)
    with pytest.raises(KeyboardInterrupt):
        strategy.run(lambda: meet(1, join))
    released.set()
    assert strategy.run(lambda: 1) == 1  # in the same threads, so after the call above
    assert in_time == [True]


def test_ctrl_c_ends_run_and_wakes_the_replicas_that_wait(strategy):
    entered, released, woken = threading.Barrier(4), threading.Event(), []

    def wait():
        entered.wait(30)
        if replica_id() == 0:
            assert released.wait(30)
            return
        try:
            meet(1)
        except ExchangeBroken:
            woken.append(replica_id())
            raise

    press_ctrl_c_after(entered)
    with pytest.raises(KeyboardInterrupt):
        strategy.run(wait)
    released.set()
    assert strategy.run(lambda: 1) == 1  # in the same threads, so after the calls above
    assert sorted(woken) == [1, 2]


def test_run_and_reduce_inside_run_are_refused(strategy):
    with pytest.raises(RuntimeError, match="run: must be called outside"):
        strategy.run(lambda: strategy.run(lambda: 1))
    with pytest.raises(RuntimeError, match="reduce: must be called outside"):
        strategy.run(lambda: strategy.reduce("SUM", torch.ones(1)))


def test_concurrent_runs_of_one_strategy_do_not_mix(strategy):
    results = {}

    def user(name):
        results[name] = [strategy.run(lambda: meet(name)) for _ in range(20)]

    threads = [threading.Thread(target=user, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("a", "b"):
        assert all(part == name for run in results[name] for part in run)


def test_run_works_in_a_forked_child(strategy):
    strategy.run(lambda: 1)
    child = os.fork()
    if child == 0:
        os._exit(0 if strategy.run(replica_id).values == (0, 1, 2) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_scopes(strategy):
    default = tdi.get_strategy()
    assert default.num_replicas_in_sync == 1
    with strategy.scope():
        assert tdi.get_strategy() is strategy
        assert tdi.get_replica_context() is None
        with strategy.scope():
            assert tdi.get_strategy() is strategy
        with pytest.raises(RuntimeError, match="Mixing different strategies"), default.scope():
            pass
        with pytest.raises(RuntimeError, match="Mixing different strategies"):
            tdi.MirroredStrategy(["cpu"]).run(lambda: 1)
    assert tdi.get_strategy() is default
    assert tdi.get_replica_context().replica_id_in_sync_group == 0
    assert strategy.run(lambda: tdi.get_strategy() is strategy) is True


def test_the_default_strategy_runs_and_distributes_nothing():
    strategy = tdi.get_strategy()
    dataset = tdi.Dataset.range(3)
    assert strategy.experimental_distribute_dataset(dataset) is dataset
    assert strategy.run(lambda a, b: a + b, (1,), {"b": 2}) == 3
    assert strategy.reduce("SUM", 5) == 5
    assert strategy.local_results(5) == (5,)


def test_ctrl_c_while_replicas_are_started_ends_those_that_wait_for_the_others(strategy, monkeypatch):
    waits, ended, starts = threading.Event(), threading.Event(), iter(range(3))

    def fn():
        waits.set()
        try:
            meet(1)
        finally:
            ended.set()

    def copy_context():
        if next(starts) == 1:
            waits.wait(10)
            raise KeyboardInterrupt
        return contextvars.Context()

    with monkeypatch.context() as patch:
        patch.setattr(_replica_exchange.contextvars, "copy_context", copy_context)
        with pytest.raises(KeyboardInterrupt):
            strategy.run(fn)
    assert ended.wait(10)
    assert strategy.run(lambda: 1) == 1
