# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Values on several CUDA devices of one process: NCCL reduces and gathers them to the same results as copies do."""

import pytest
import torch

import torch_distinput as tdi

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="not measured: needs two CUDA devices")


@pytest.fixture(scope="module")
def strategy():
    return tdi.MirroredStrategy([f"cuda:{i}" for i in range(torch.cuda.device_count())])


def spread(values):
    return tdi.PerReplica([value.to(f"cuda:{i}") for i, value in enumerate(values)])


def kernels(run) -> list[str]:
    """The names of the kernels that `run` started."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages()]


@pytest.mark.parametrize(
    "dtype", [torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_reduce_is_that_of_the_host(strategy, dtype):
    values = [torch.randint(0, 9, (1000, 3)).to(dtype) for _ in strategy.devices]
    total = strategy.reduce("SUM", spread(values))
    assert total.device == strategy.devices[0]
    assert torch.equal(total.cpu(), torch.stack(values).sum(0, dtype=dtype))


def test_every_replica_gets_the_sum_on_its_device(strategy):
    values = [torch.randint(0, 9, (1000, 3)).float() for _ in strategy.devices]
    sums = strategy.run(lambda x: tdi.get_replica_context().all_reduce("SUM", x), (spread(values),))
    for device, total in zip(strategy.devices, sums.values, strict=True):
        assert total.device == device
        assert torch.equal(total.cpu(), torch.stack(values).sum(0))


@pytest.mark.parametrize("axis", [0, 1])
def test_gather_brings_parts_of_different_sizes(strategy, axis):
    values = [torch.rand((i, 4) if axis == 0 else (4, i)) for i, _ in enumerate(strategy.devices)]
    assert torch.equal(strategy.gather(spread(values), axis).cpu(), torch.cat(values, axis))


def test_nccl_does_it(strategy):
    values = spread([torch.rand(1 << 20) for _ in strategy.devices])
    strategy.reduce("SUM", values)  # the first call sets NCCL up
    assert any("nccl" in name.lower() for name in kernels(lambda: strategy.reduce("SUM", values)))


def test_gradients_flow(strategy):
    weights = [torch.ones(3, device=device, requires_grad=True) for device in strategy.devices]
    strategy.reduce("SUM", tdi.PerReplica([weight * 2 for weight in weights])).sum().backward()
    assert all(torch.equal(weight.grad.cpu(), torch.full((3,), 2.0)) for weight in weights)


def test_replicas_meet_on_streams_of_their_own(strategy):
    def step(x):
        with torch.cuda.stream(torch.cuda.Stream(x.device)) as _:
            torch.cuda._sleep(20_000_000)
            mine = torch.full((1000,), float(tdi.get_replica_context().replica_id_in_sync_group), device=x.device)
            return tdi.get_replica_context().all_reduce("SUM", mine)

    sums = strategy.run(step, (spread([torch.zeros(1) for _ in strategy.devices]),))
    torch.cuda.synchronize()
    expected = float(sum(range(len(strategy.devices))))
    assert all(torch.equal(total.cpu(), torch.full((1000,), expected)) for total in sums.values)
