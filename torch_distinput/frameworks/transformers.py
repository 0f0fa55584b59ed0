# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Trainer: `class MyTrainer(DistributedInputMixin, Trainer)` reads every row exactly once."""

import functools
from typing import TYPE_CHECKING, Any

import torch
from transformers.trainer_pt_utils import find_batch_size

from torch_distinput.frameworks._accelerate import prepared
from torch_distinput.loader._data_loader import DataLoader

if TYPE_CHECKING:
    from transformers import Trainer as _Base
else:
    _Base = object


class DistributedInputMixin(_Base):
    """Makes the data loaders of a class exact; put it before `Trainer` among the bases.

    The Trainer builds its loaders as usual, with its columns, collators and samplers; they are replaced when its
    accelerator prepares them. `TrainingArguments.data_seed`, or else `seed`, decides about the order.
    """

    def create_accelerator_and_postprocess(self) -> None:
        """As in the Trainer; its accelerator makes every DataLoader one of this library."""
        super().create_accelerator_and_postprocess()
        accelerator = self.accelerator
        accelerator.prepare_data_loader = functools.partial(_prepare, accelerator, _seed_of(self.args))

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        """As in the Trainer, over rows that are gathered exactly."""
        if isinstance(dataloader, DataLoader):
            self.gather_function = functools.partial(
                self._gather_exactly, use_gather_object=self.args.eval_use_gather_object
            )
        return super().evaluation_loop(dataloader, *args, **kwargs)

    def prediction_step(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As in the Trainer, but the mean loss weighs each row once; the Trainer weighs all batches alike."""
        loss, logits, labels = super().prediction_step(model, inputs, *args, **kwargs)
        self._evaluated_rows = find_batch_size(inputs)
        if loss is not None and loss.dim() == 0 and self._evaluated_rows is not None:
            loss = loss.repeat(self._evaluated_rows)
        return loss, logits, labels

    def _gather_exactly(self, value: Any, use_gather_object: bool = False) -> Any:
        rows = self._evaluated_rows
        repeated = None if rows is None else rows * self.args.eval_batch_size
        if isinstance(value, torch.Tensor) and value.dim() == 1 and len(value) == repeated:
            value = value[:rows]  # the losses, which the Trainer repeats for a whole batch
        return self.accelerator.gather_for_metrics(value, use_gather_object=use_gather_object)


def _seed_of(args: Any) -> int:
    return args.seed if args.data_seed is None else args.data_seed


def _prepare(
    accelerator: Any,
    seed: int,
    data_loader: Any,
    device_placement: bool | None = None,
    slice_fn_for_dispatch: Any = None,
) -> DataLoader:
    """Replaces `accelerator.prepare_data_loader`."""
    if type(data_loader.batch_sampler).__name__ == "BatchRebalanceSampler":  # knows its rank, and the Trainer wants it
        return type(accelerator).prepare_data_loader(accelerator, data_loader, device_placement, slice_fn_for_dispatch)
    if not getattr(data_loader, "_is_accelerate_prepared", False):
        placed = accelerator.device_placement if device_placement is None else device_placement
        data_loader = prepared(
            data_loader,
            accelerator.device if placed else None,
            split_batches=accelerator.split_batches,
            even_batches=accelerator.even_batches,
            seed=seed,
            mesh=accelerator.torch_device_mesh,
        )
    if not any(known is data_loader for known in accelerator._dataloaders):
        accelerator._dataloaders.append(data_loader)
    return data_loader
