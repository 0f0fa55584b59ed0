# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The generators from which an order may be drawn, and a copy of torch's own for loaders whose state was saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from torch_distinput.datasets._dataset import Dataset
from torch_distinput.loader._config import LoaderConfig
from torch_distinput.recognize._torchvision import random_transforms


class Start(Protocol):
    """The generators' part of where an iterator begins."""

    first: Drawn | None
    after: torch.Tensor | None


@dataclass(frozen=True)
class Drawn:
    """States of the generators at one moment; None for a generator that the order does not use.

    `rng`: torch's own generator, or the loader's copy of it. `generator`: the loader's. `sampler`: the sampler's, if
    that is a different one.
    """

    rng: torch.Tensor | None = None
    generator: torch.Tensor | None = None
    sampler: torch.Tensor | None = None

    def opened(self) -> Drawn:
        """The states after an iterator was made: torch draws a seed for workers, even without workers."""
        if self.generator is not None:
            return Drawn(self.rng, _after_a_seed(self.generator), self.sampler)
        return Drawn(None if self.rng is None else _after_a_seed(self.rng), None, self.sampler)

    def equals(self, other: Drawn) -> bool:
        mine, others = (self.rng, self.generator, self.sampler), (other.rng, other.generator, other.sampler)
        return all(_same(a, b) for a, b in zip(mine, others))


class Draws:
    """The random numbers of a loader.

    Without a generator of the user's they come from torch's own, as in torch. The whole program draws from that one, so
    no state could say what later epochs will draw. After the first state is saved or loaded, they come from a copy of
    it instead; the seeds that torch would have drawn are still drawn from torch's own, so that the rest of the program
    gets the same numbers.
    """

    def __init__(self) -> None:
        self._copy: torch.Generator | None = None
        self._lent = False
        self._seeds_given = 0  # while the copy was lent
        self._from_torch = False
        self._generator: torch.Generator | None = None
        self._sampler_generator: torch.Generator | None = None

    def begin(self, config: LoaderConfig) -> None:
        """Notes the generators of a loader before an iterator is made."""
        self._from_torch = draws_from_torch(config)
        self._generator, self._sampler_generator = config.generator, sampler_generator(config)

    def snapshot(self) -> Drawn:
        """The current states of the generators."""
        rng = self._source().get_state() if self._from_torch else None
        return Drawn(rng, _state_of(self._generator), _state_of(self._sampler_generator))

    def restore(self, drawn: Drawn) -> None:
        """Sets the generators to the states of `drawn`; a generator without a state there keeps its own."""
        if drawn.rng is not None:
            if self._copy is None:
                self._copy = torch.Generator()
            self._source().set_state(drawn.rng)
        for generator, state in ((self._generator, drawn.generator), (self._sampler_generator, drawn.sampler)):
            if generator is not None and state is not None:
                generator.set_state(state)

    def before_first(self, start: Start) -> None:
        """Called before the order of an epoch is drawn: restores the generators as they were at this point of a saved
        epoch; in a new epoch, notes their states."""
        if start.first is None:
            start.first = self.snapshot()
        else:
            self.restore(start.first)

    def keep(self, start: Start) -> None:
        """Called before a state of `start`'s iterator is saved: later orders are drawn from a copy."""
        if self._from_torch and self._copy is None:
            assert start.after is not None, "noted when the iterator was made"
            self._copy = torch.Generator()
            self._copy.set_state(start.after)

    def note(self, start: Start) -> None:
        """Called after a draw: notes the state of torch's own generator."""
        if self._from_torch and self._copy is None:
            start.after = torch.default_generator.get_state()

    def seed(self, start: Start) -> int:
        """Draws the seed that torch's RandomSampler draws if it has no generator."""
        seed = draw_seed()
        if self._lent:
            self._seeds_given += 1
        elif self._copy is not None:
            seed = draw_seed(self._copy)
        self.note(start)
        return seed

    def call(self, function: Callable[[], Any], start: Start) -> Any:
        """Calls `function`, which may draw from torch's own generator, and returns its result."""
        if self._copy is not None:
            with self.lent():
                return function()
        try:
            return function()
        finally:
            self.note(start)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Gives torch's own generator the state of the copy until the block ends, for code that draws from torch's."""
        if self._copy is None or self._lent or not self._from_torch:
            yield
            return
        torchs = torch.default_generator
        now = torchs.get_state()
        torchs.set_state(self._copy.get_state())
        self._lent, self._seeds_given = True, 0
        try:
            yield
        finally:
            self._copy.set_state(torchs.get_state())
            torchs.set_state(now)
            self._lent = False
            for _ in range(self._seeds_given):
                draw_seed()

    def opened(self, config: LoaderConfig) -> None:
        """Called after torch's iterator was made, which drew a seed for workers."""
        if self._lent and config.generator is None:
            self._seeds_given += 1

    def _source(self) -> torch.Generator:
        return torch.default_generator if self._copy is None or self._lent else self._copy


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Draws a seed as torch draws its own seeds: one int64 from `generator` (None: torch's own)."""
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def draws_from_torch(config: LoaderConfig) -> bool:
    """Whether batches may depend on torch's own generator: True unless the types of dataset and sampler rule it out."""
    if isinstance(config.dataset, Dataset):
        return False
    if config.is_stream:
        return True
    if config.seed is None and config.generator is None and random_transforms(config.dataset):
        return True
    sampler = samplers_of(config)[-1]
    if type(sampler) is RandomSampler:
        return sampler.generator is None and config.seed is None
    return type(sampler) not in (SequentialSampler, range, list, tuple)


def samplers_of(config: LoaderConfig) -> tuple[Any, ...]:
    """The objects that make the indices: the sampler; or the batch sampler, and below torch's own its sampler."""
    sampler = config.index_sampler
    return (sampler, sampler.sampler) if type(sampler) is BatchSampler else (sampler,)


def sampler_generator(config: LoaderConfig) -> torch.Generator | None:
    """The generator of the samplers; None if it is the loader's."""
    for sampler in samplers_of(config):
        generator = getattr(sampler, "generator", None)
        if isinstance(generator, torch.Generator):
            return None if generator is config.generator else generator
    return None


def _state_of(generator: torch.Generator | None) -> torch.Tensor | None:
    return None if generator is None else generator.get_state()


def _same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and torch.equal(a, b))


def _after_a_seed(state: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator()
    try:
        generator.set_state(state)
    except RuntimeError:  # the state of a generator of another device
        return state
    draw_seed(generator)
    return generator.get_state()
