# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs of docs/frameworks.md run, each in a process of its own, because frameworks keep global state."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from pages import blocks
from places import DOCS, ROOT

PAGE = DOCS / "frameworks.md"

# What stands before each program, in the order of the page, and what one CPU has instead of the GPUs.
ROWS = """
import torch
from torch.utils.data import TensorDataset
train_rows = test_rows = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20) % 2)
"""
MODEL = """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LIGHTNING = """
import lightning
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
    def training_step(self, batch):
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
    validation_step = training_step
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
model = Model()
"""
FAKE_RANKS = """
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg
dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=8)
from torch_distinput import DataLoader
dataset = train_rows
"""
TORCHFT = """
import torch.distributed as dist
import torch.nn.functional as F
import torch_distinput as tdi
from torchft.coordination import LighthouseServer
from torchft.process_group import ProcessGroupGloo
rows, epochs, pg = train_rows, 2, ProcessGroupGloo()
lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1)
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
settings = dict(
    load_state_dict=model.load_state_dict, state_dict=model.state_dict, min_replica_size=1, rank=0, world_size=1,
    store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=lighthouse.address(), hostname="127.0.0.1",
)
"""
PROGRAMS = [
    ("accelerate", ROWS + MODEL, {}, "assert sum(len(x) for x, _ in train) == 20 and train.distributed"),
    ("transformers", "", {}, "assert issubclass(MyTrainer, Trainer)"),
    (
        "lightning",
        ROWS + LIGHTNING,
        {'strategy="ddp", devices=8': 'accelerator="cpu", devices=1, max_epochs=1, logger=False, '
         "enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False"},
        "assert trainer.global_step == 1",
    ),
    (
        "lightning",
        ROWS + "from lightning.fabric import Fabric\nfrom torch_distinput.frameworks.lightning import DataLoader\n"
        'fabric = Fabric(accelerator="cpu", devices=1)\n',
        {},
        "assert sum(len(x) for x, _ in loader) == 20",
    ),
    ("torch", ROWS, {}, "assert len(list(DataLoader(train_rows, batch_size=8))) == 3"),
    (
        "datasets",
        'import datasets\ndataset = datasets.Dataset.from_dict({"x": list(range(70))})\n',
        {},
        "assert sorted(i for batch in loader for i in batch['x'].tolist()) == list(range(70))",
    ),
    ("torch", ROWS + FAKE_RANKS, {'"cuda"': '"cpu"'}, "assert loader.distributed.size() == 2"),
    (
        "torchft",
        ROWS + MODEL + TORCHFT,
        {"global_batch_size=256": "global_batch_size=8"},
        "assert manager.current_step() == loader.committed_steps == 6\nmanager.shutdown()",
    ),
    (
        "torchtitan",
        "import types\nimport torch\nopen('text', 'w').write('1 2 3\\n4 5\\n6\\n')\n"
        "files, config = ['text'], types.SimpleNamespace()\n"
        "tokenizer = types.SimpleNamespace(encode=lambda line: [int(word) for word in line.split()])\n",
        {},
        "assert [labels.tolist() for _, labels in config.dataloader.dataset(tokenizer, 2)]",
    ),
]  # fmt: skip


def test_each_program_of_the_page_is_here():
    assert len(PROGRAMS) == len(blocks(PAGE, "python"))


@pytest.mark.slow  # importing the frameworks is
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_programs_of_the_page_run(number, tmp_path):
    package, before, changes, after = PROGRAMS[number]
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    code = blocks(PAGE, "python")[number]
    for text, other in changes.items():
        assert text in code
        code = code.replace(text, other)
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    result = subprocess.run(
        [sys.executable, "-c", f"{before}\n{code}\n{after}"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
