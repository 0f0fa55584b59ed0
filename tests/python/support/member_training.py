# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A regression that members train and evaluate together, with a ledger of rows and losses of its committed steps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

import torch_distinput as tdi

FEATURES = 3
CHECKED = 11  # rows of an evaluation


class Training(NamedTuple):
    """What is trained: `in_order` over data that must be read in order; `streams`: over streams that have owners."""

    rows: int
    batch: int
    epochs: int
    in_order: bool = False
    streams: bool = False

    @property
    def steps(self) -> int:
        return -(-self.rows // self.batch)

    @property
    def checks(self) -> int:
        return -(-CHECKED // self.batch)

    @property
    def total(self) -> int:
        return self.epochs * (self.steps + self.checks)


def loader_of(training: Training, membership: tdi.Membership) -> Any:
    """Over numbers, features and targets of rows."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(training.rows, FEATURES, generator=generator, dtype=torch.float64)
    rows = torch.arange(training.rows), features, features.sum(1)
    arguments = {"global_batch_size": training.batch, "membership": membership, "seed": 7}
    if training.in_order or training.streams:
        data = tdi.Dataset.from_tensor_slices(rows).filter(_any_row).shuffle(16)
        if training.streams:
            data = data.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS))
        return tdi.DataLoader(data, **arguments)
    return tdi.DataLoader(TensorDataset(*rows), shuffle=True, **arguments)


def _any_row(*row: torch.Tensor) -> bool:
    return True


def checker_of(training: Training, membership: tdi.Membership) -> Any:
    return tdi.DataLoader(torch.arange(CHECKED), global_batch_size=training.batch, membership=membership)


class History:
    """What travels to a member that heals: the weights, how often each row was in a committed step of each epoch and of
    the evaluation after it, and the loss of each step."""

    def __init__(self, training: Training):
        self.weights = torch.zeros(FEATURES, dtype=torch.float64, requires_grad=True)
        self.seen, self.checked = torch.zeros(training.epochs, training.rows), torch.zeros(training.epochs, CHECKED)
        self.losses = torch.zeros(training.epochs * training.steps, dtype=torch.float64)

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {name: getattr(self, name).detach().clone() for name in ("weights", "seen", "checked", "losses")}

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            for name, value in state.items():
                getattr(self, name).copy_(value)


class Steps:
    """How a member takes steps. `average(gradient, *sums)` reduces over the members: the gradient to its mean, the
    others to their sums. `taken`: the committed steps of the job, of all loaders. `tell` is told of each step that this
    process has rows for how many there were before it."""

    def average(self, gradient: torch.Tensor, *sums: torch.Tensor) -> None:
        pass

    def should_commit(self) -> bool:
        return True

    def tell(self, step: int) -> None:
        pass

    def taken(self, loaders: Sequence[Any]) -> int:
        return sum(loader.committed_steps for loader in loaders)


def run(training: Training, loaders: Sequence[Any], history: History, steps: Steps) -> None:
    """Trains with the first loader, and evaluates after each epoch with the second one."""
    while steps.taken(loaders) < training.total:
        for batch in loaders[0]:
            if len(batch[0]):
                steps.tell(steps.taken(loaders))
            loaders[0].commit(_train(batch, loaders[0], history, steps))
        for batch in loaders[1]:
            if len(batch):
                steps.tell(steps.taken(loaders))
            loaders[1].commit(_check(batch, loaders[1], history, steps))


def run_streams(training: Training, loader: Any, history: History, steps: Steps) -> None:
    """Counts the rows of each epoch, over streams that have owners: which rows a step has depends on the members."""
    while loader.committed_epochs < training.epochs:
        for numbers, *_ in loader:
            if len(numbers):
                steps.tell(loader.committed_steps)
            seen = _marked(numbers, history.seen)
            steps.average(torch.zeros(1), seen)
            ok = steps.should_commit()
            if ok:
                history.seen[loader.last_info.epoch] += seen
            loader.commit(ok)


def _train(batch: Any, loader: Any, history: History, steps: Steps) -> bool:
    """Whether the step was made."""
    numbers, features, targets = batch
    history.weights.grad = None
    error = (features @ history.weights - targets) ** 2
    tdi.distributed_mean(error.sum(), loader.last_info).backward()
    seen, loss = _marked(numbers, history.seen), error.detach().sum()[None]
    steps.average(history.weights.grad, seen, loss)
    if not steps.should_commit():
        return False
    with torch.no_grad():
        history.weights -= 0.1 * history.weights.grad
    history.seen[loader.last_info.epoch] += seen
    history.losses[loader.committed_steps] = loss.item() / loader.last_info.global_valid
    return True


def _check(numbers: torch.Tensor, loader: Any, history: History, steps: Steps) -> bool:
    checked = _marked(numbers, history.checked)
    steps.average(torch.zeros(1), checked)
    if not steps.should_commit():
        return False
    history.checked[loader.last_info.epoch] += checked
    return True


def _marked(numbers: torch.Tensor, ledger: torch.Tensor) -> torch.Tensor:
    """1 for each of these rows."""
    return torch.zeros(ledger.shape[1]).index_fill(0, numbers, 1)


def undisturbed(training: Training) -> dict[str, torch.Tensor]:
    """What one process learns."""
    history, alone = History(training), tdi.Membership.fixed(0, 1)
    run(training, [loader_of(training, alone), checker_of(training, alone)], history, Steps())
    return history.state_dict()


def check_learnt(learnt: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """That each row was in exactly one committed step of each epoch and each evaluation, and that weights and the loss
    of each step are those of one process up to the order of sums."""
    assert learnt["seen"].eq(1).all()
    assert learnt["checked"].eq(1).all()
    torch.testing.assert_close(learnt["weights"], expected["weights"])
    torch.testing.assert_close(learnt["losses"], expected["losses"])
