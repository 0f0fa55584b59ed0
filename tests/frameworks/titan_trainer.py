# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A run of torchtitan's Trainer on CPUs, over a model of two layers. Imported only where torchtitan is installed."""

import inspect
import os
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torchtitan.tools import utils

utils.device_type, utils.device_module = "cpu", torch.cpu  # before other modules of torchtitan read them

from torchtitan.components import metrics  # noqa: E402
from torchtitan.components.checkpointer import CheckpointManager  # noqa: E402
from torchtitan.components.loss import BaseLoss  # noqa: E402
from torchtitan.components.optimizer import default_adamw  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.components.validate import Validator  # noqa: E402
from torchtitan.config import ParallelismConfig, TrainingConfig  # noqa: E402
from torchtitan.distributed import utils as groups  # noqa: E402
from torchtitan.models.common import Embedding, Linear  # noqa: E402
from torchtitan.protocols import BaseModel  # noqa: E402
from torchtitan.protocols.model_spec import ModelSpec  # noqa: E402
from torchtitan.trainer import Trainer  # noqa: E402

from torch_distinput.frameworks.torchtitan import DataLoader  # noqa: E402

WORDS = 512
WEIGHTS = {"weight": torch.nn.init.zeros_}


class Memory(metrics.DeviceMemoryMonitor):
    """What torchtitan logs about an accelerator's memory."""

    device_name, device_capacity_gib = "cpu", 0.0

    def __init__(self, device):
        pass

    def get_peak_stats(self):
        return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

    def reset_peak_stats(self):
        pass


# What else needs an accelerator: its memory, and a barrier on it.
metrics.DeviceMemoryMonitor = Memory
groups.set_pg_timeouts = lambda timeout, parallel_dims: None


class Model(BaseModel):
    """Predicts the next token from the last one."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseModel.Config):
        tokens: Embedding.Config = field(
            default_factory=partial(Embedding.Config, num_embeddings=WORDS, embedding_dim=4, param_init=WEIGHTS)
        )
        head: Linear.Config = field(
            default_factory=partial(Linear.Config, in_features=4, out_features=WORDS, param_init=WEIGHTS)
        )

        def update_from_config(self, *, config, **kwargs):
            pass

        def get_nparams_and_flops(self, model, seq_len):
            return 8 * WORDS, 8 * WORDS

    def __init__(self, config):
        super().__init__()
        self.tokens, self.head = config.tokens.build(), config.head.build()

    def forward(self, tokens, positions=None):
        return self.head(self.tokens(tokens))


class Loss(BaseLoss):
    """Of whole rows of logits; torchtitan's own wants them split over the ranks of a tensor-parallel group."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseLoss.Config):
        pass

    def __init__(self, config, *, compile_config=None):
        self.fn = lambda logits, labels: cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum")


class Tokenizer(BaseTokenizer):
    """Texts come as tokens already."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, *, tokenizer_path):
        super().__init__()

    def encode(self, tokens):
        return tokens

    def decode(self, tokens):
        return tokens

    def get_vocab_size(self):
        return WORDS


class Recorded(Trainer):
    """Keeps the inputs of each step."""

    @dataclass(kw_only=True, slots=True)
    class Config(Trainer.Config):
        pass

    def batch_generator(self, data_iterable):
        self.inputs = []
        for inputs, labels in super().batch_generator(data_iterable):
            assert inputs["input"].shape == inputs["positions"].shape == labels.shape
            self.inputs.append((inputs["input"][labels != -100].tolist(), list(labels.shape)))
            yield inputs, labels


def training(rows, length):
    """torchtitan's training section in the words of the installed version: 0.3 counts rows, main tokens."""
    if "seq_len" in inspect.signature(TrainingConfig).parameters:
        return partial(TrainingConfig, local_batch_size=rows, seq_len=length)
    return partial(TrainingConfig, num_tokens_per_microbatch_per_dp_rank=rows * length, max_context_length=length)


def train(rank, dataset, *, rows, length, steps, folder, tensor_parallel=1, validate=None, **loader):
    """Trains up to step `steps`, from the newest checkpoint in `folder`, where each step is kept. Returns for each step
    taken the inputs that have a label and the shape of the batch, and the last step."""
    world = dist.get_world_size()
    os.environ.update(RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    config = Recorded.Config(
        model_spec=ModelSpec(
            name="two_layers",
            flavor="tiny",
            model=Model.Config(),
            parallelize_fn=lambda model, **kwargs: model,
            pipelining_fn=None,
            post_optimizer_build_fn=None,
            state_dict_adapter=None,
        ),
        tokenizer=Tokenizer.Config(),
        dump_folder=folder,
        dataloader=DataLoader.Config(dataset=dataset, **loader),
        training=training(rows, length)(steps=steps, disable_cuda_graphs=True),
        parallelism=ParallelismConfig(tensor_parallel_degree=tensor_parallel),
        checkpoint=CheckpointManager.Config(enable=True, interval=1, keep_latest_k=0, last_save_model_only=False),
        optimizer=default_adamw(),
        loss=Loss.Config(),
    )
    if validate is not None:
        config.validator = Validator.Config(
            enable=True, freq=steps, steps=validate, dataloader=DataLoader.Config(dataset=dataset)
        )
    trainer = config.build()
    trainer.train()
    taken = trainer.inputs, trainer.step
    trainer.close()
    return taken
