# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Replica groups under torchft's real Manager and lighthouse, which are killed and come back."""

import contextlib
import random
import re
import time
from multiprocessing.connection import wait

import member_training
import pytest
import ranks
import torch.distributed as dist
import torchft_groups
from member_training import Training

LIMIT = 120


class Groups:
    """Groups of `size` processes, and what they tell."""

    def __init__(self, lighthouse, size, training, asynchronous):
        self._lighthouse, self._size = lighthouse, size
        self._training, self._asynchronous = training, asynchronous
        self._stores = []
        self.running = {}  # processes and their groups, by pipe
        self.ready = set()  # pipes of processes that can take part in a quorum
        self.steps = {}  # the step that a process told last, by pipe
        self._held = []  # pipes of processes that wait for leave to go on with their step

    def start(self):
        group = len(self._stores)
        self._stores.append(dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
        for rank in range(self._size):
            ours, theirs = ranks._context.Pipe()
            place = (self._stores[-1].port, rank, self._size)
            arguments = (theirs, f"group{group}", self._lighthouse, place, self._training, self._asynchronous)
            process = ranks._context.Process(target=torchft_groups.run_process, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self.running[ours] = process, group

    def told(self, pipe, step):
        """Notes what the process told: that it is ready, or the step that it begins."""
        if step is None:
            self.ready.add(pipe)
        else:
            self.steps[pipe] = step
            self._held.append(pipe)

    def go_on(self):
        """Lets processes go on with their steps."""
        for pipe in self._held:
            if pipe in self.running:
                pipe.send(None)
        self._held.clear()

    def has_spare(self, pipe):
        """Whether another group has the state of the group whose process tells by `pipe`: a group that heals from one
        that is killed meanwhile may have got parts of its state, of which torchft tells nobody."""
        _, group = self.running[pipe]
        others = {its_group for _, its_group in self.running.values()} - {group}
        steps = {other: {self.steps.get(p, -1) for p, (_, g) in self.running.items() if g == other} for other in others}
        return any(min(taken) >= self.steps[pipe] - 1 for taken in steps.values())

    def training(self):
        """How many groups have told a step."""
        return len({group for pipe, (_, group) in self.running.items() if pipe in self.steps})

    def kill(self, pipe):
        """Kills the group whose process tells by `pipe`."""
        _, group = self.running[pipe]
        for other, (process, its_group) in list(self.running.items()):
            if its_group == group:
                del self.running[other]
                process.kill()
                process.join()
                other.close()

    def end(self):
        while self.running:
            self.kill(next(iter(self.running)))


@contextlib.contextmanager
def _groups(number, size, training, asynchronous):
    coordination = pytest.importorskip("torchft.coordination", reason="torchft-nightly is not installed")
    server = coordination.LighthouseServer(
        bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=5000, quorum_tick_ms=20, heartbeat_timeout_ms=1000
    )
    groups = Groups(server.address(), size, training, asynchronous)
    try:
        for _ in range(number):
            groups.start()
        yield groups
    finally:
        groups.end()
        server.shutdown()


def _train_with_kills(groups, kills, chance, limit=LIMIT, least=0):
    """What each process that lives to the end has learnt, after `kills` groups were killed and others begun. Groups are
    killed while at least `least` of them train, and take no steps before those that begin can join."""
    results, deadline = {}, time.monotonic() + limit
    done = 0
    while len(results) < len(groups.running):
        left = deadline - time.monotonic()
        ready = wait(list(groups.running), timeout=max(left, 0))
        assert ready, f"the groups have not ended after {limit} s"
        for pipe in ready:
            if pipe not in groups.running:
                continue
            try:
                told = pipe.recv()
            except EOFError:
                process, _ = groups.running[pipe]
                process.join()
                raise AssertionError(f"a group has ended by itself, with {process.exitcode}") from None
            if isinstance(told, dict):
                results[pipe] = told
                continue
            groups.told(pipe, told)
            may = told is not None and not results and groups.has_spare(pipe) and groups.training() >= least
            if done < kills and may and chance.random() < 0.3:
                done += 1
                groups.kill(pipe)
                groups.start()
        if done == kills or groups.ready.issuperset(groups.running):
            groups.go_on()
    assert done == kills
    return list(results.values())


@pytest.mark.slow
@pytest.mark.parametrize(("number", "size", "asynchronous"), [(3, 1, True), (3, 1, False), (2, 2, True)])
@pytest.mark.parametrize("in_order", [False, True])
def test_groups_that_are_killed_and_come_back_train_on_each_row_once(number, size, asynchronous, in_order):
    training = Training(60, 7, 2, in_order)
    with _groups(number, size, training, asynchronous) as groups:
        learnt = _train_with_kills(groups, 3, random.Random(1))
    assert len(learnt) == number * size
    expected = member_training.undisturbed(training)
    for history in learnt:
        member_training.check_learnt(history, expected)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [True, False])
def test_groups_that_are_killed_and_come_back_hand_over_their_streams(asynchronous):
    training = Training(400, 8, 2, streams=True)
    with _groups(3, 1, training, asynchronous) as groups:
        learnt = _train_with_kills(groups, 5, random.Random(3), least=2)
    assert len(learnt) == 3
    for history in learnt:
        assert history["seen"].eq(1).all()


@pytest.mark.slow
def test_four_groups_of_two_train_on_each_row_once_through_twenty_kills_in_an_epoch():
    """Weights and the loss of each step are those of one process. Two minutes."""
    training = Training(2400, 12, 1)
    with _groups(4, 2, training, True) as groups:
        learnt = _train_with_kills(groups, 20, random.Random(2), limit=560, least=4)
    assert len(learnt) == 4 * 2
    expected = member_training.undisturbed(training)
    for history in learnt:
        member_training.check_learnt(history, expected)


@pytest.mark.slow
def test_the_example_sees_every_row_once_although_groups_are_killed():
    pytest.importorskip("torchft", reason="torchft-nightly is not installed")
    output = ranks.run_example("18_members.py")
    assert len(re.findall(r"\| killed$", output, re.MULTILINE)) == 2
    ended = re.findall(r"rows seen 4 to 4 times in 4 epochs, accuracy (\d\.\d+)$", output, re.MULTILINE)
    assert len(ended) == 3
    assert min(map(float, ended)) >= 0.85
