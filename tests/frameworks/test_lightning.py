# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lightning's Trainer and Fabric on two processes: exact rows, metrics, predictions and checkpoints."""

import importlib
import logging
import os
import warnings
from importlib.util import find_spec

import pytest
import torch
from ranks import returned, run_ranks
from torch.utils.data import TensorDataset

import torch_distinput as tdi

# Imported where a test needs them: each worker of pytest-xdist collects this file.
missing = [name for name in ("lightning", "torchmetrics") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"{missing} are not installed")

ROWS, CLASSES = 29, 3
LABELS = [row * row % CLASSES for row in range(ROWS)]
PREDICTED = [row % CLASSES for row in range(ROWS)]
ACCURACY = sum(label == predicted for label, predicted in zip(LABELS, PREDICTED)) / ROWS


def launched(rank, world):
    """As a process that torchrun started."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    os.environ.update(zip(names, map(str, (rank, rank, world, world))))
    os.environ.update(TORCHELASTIC_RUN_ID="test", GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    warnings.simplefilter("ignore")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def dataset():
    return TensorDataset(torch.arange(ROWS), torch.tensor(LABELS))


def loader_class(line):
    """What a script imports under the name DataLoader, and which arguments it adds."""
    if line == "distributed=True":
        return lambda *args, **kwargs: tdi.DataLoader(*args, distributed=True, **kwargs)
    return importlib.import_module("torch_distinput.frameworks.lightning").DataLoader


def make_module():
    import lightning
    from torchmetrics.classification import MulticlassAccuracy

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, CLASSES)
            self.accuracy = MulticlassAccuracy(CLASSES, average="micro")
            self.seen = []

        def training_step(self, batch, index):
            rows, labels = batch
            loader = self.trainer.train_dataloader
            if isinstance(loader.dataset, TensorDataset):  # of others Lightning reads one batch ahead
                assert loader.last_info.valid == (len(rows),)
            self.seen.append((self.current_epoch, rows.tolist()))
            return torch.nn.functional.cross_entropy(self.layer(rows[:, None].float()), labels)

        def validation_step(self, batch, index):
            rows, labels = batch
            self.accuracy(rows % CLASSES, labels)
            self.log("accuracy", self.accuracy)

        test_step = validation_step

        def predict_step(self, batch, index):
            return batch[0]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    return Module()


def make_trainer(folder, *callbacks, **arguments):
    import lightning

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    settings = {"strategy": "ddp", "accelerator": "cpu", "devices": int(os.environ["WORLD_SIZE"]), "max_epochs": 3}
    settings |= quiet | {"num_sanity_val_steps": 0, "default_root_dir": folder} | arguments
    return lightning.Trainer(callbacks=list(callbacks), **settings)


def fitting(rank, line, folder):
    launched(rank, 2)
    from lightning.pytorch.callbacks import ModelCheckpoint

    make = loader_class(line)
    seed = {"seed": 5} if line == "distributed=True" else {}
    steps = ModelCheckpoint(folder, "step{step}", save_top_k=-1, every_n_train_steps=1, auto_insert_metric_name=False)
    epochs = ModelCheckpoint(
        folder, "epoch{epoch}", save_top_k=-1, save_on_train_epoch_end=True, auto_insert_metric_name=False
    )
    trainer = make_trainer(folder, steps, epochs, enable_checkpointing=True)
    module = make_module()
    trainer.fit(module, make(dataset(), 4, shuffle=True, **seed), make(dataset(), 4))
    accuracies = [trainer.callback_metrics["accuracy"].item()]
    for evaluate in (trainer.validate, trainer.test):
        accuracies.append(evaluate(module, make(dataset(), 4), verbose=False)[0]["accuracy"])
    resumed = {}
    for name in ("step1", "step4", "step6", "epoch0"):
        again = make_module()
        train = make(dataset(), 4, shuffle=True, **seed)
        trainer = make_trainer(folder, use_distributed_sampler=name != "step6")
        trainer.fit(again, train, ckpt_path=f"{folder}/{name}.ckpt", weights_only=False)
        resumed[name] = again.seen
    return module.seen, accuracies, resumed


@pytest.mark.parametrize("line", ["distributed=True", "import line"])
def test_the_trainer_sees_every_row_once_and_goes_on_where_it_stopped(line, tmp_path):
    ranks = returned(run_ranks(fitting, 2, line, str(tmp_path), limit=200))
    for epoch in range(3):
        rows = [row for seen, *_ in ranks for number, part in seen if number == epoch for row in part]
        assert sorted(rows) == list(range(ROWS))
    for seen, accuracies, resumed in ranks:
        assert [number for number, _ in seen] == [0] * 4 + [1] * 4 + [2] * 4
        assert accuracies == pytest.approx([ACCURACY] * 3)
        # A checkpoint after step 4 or after epoch 0 begins with epoch 1.
        assert resumed == {"step1": seen[1:], "step4": seen[4:], "step6": seen[6:], "epoch0": seen[4:]}
    assert len({str(part) for number, part in ranks[0][0]}) == 12


def predicting(rank, line, folder, shuffle):
    launched(rank, 2)
    import lightning
    from lightning.pytorch.callbacks import BasePredictionWriter

    class Writer(BasePredictionWriter):
        def write_on_batch_end(self, trainer, module, prediction, batch_indices, batch, batch_idx, dataloader_idx):
            written.append((prediction.tolist(), batch_indices))

    class Data(lightning.LightningDataModule):
        def predict_dataloader(self):
            return loader_class(line)(dataset(), batch_size=4, shuffle=shuffle)

    written = []
    make_trainer(folder, Writer("batch")).predict(make_module(), Data())
    direct = make_trainer(folder).predict(make_module(), loader_class(line)(dataset(), 4, shuffle=shuffle))
    return written, [rows.tolist() for rows in direct]


@pytest.mark.parametrize("shuffle", [False, True])
def test_predictions_come_with_their_own_rows(shuffle, tmp_path):
    ranks = returned(run_ranks(predicting, 2, "import line", str(tmp_path), shuffle, limit=100))
    for written, direct in ranks:
        assert all(rows == indices for rows, indices in written)
        assert [rows for rows, _ in written] == direct
    assert sorted(row for _, direct in ranks for rows in direct for row in rows) == list(range(ROWS))


def with_fabric(rank, path, device):
    """Two epochs, a checkpoint in the middle of each, and what is left of them in a program that begins anew."""
    launched(rank, 2)
    import lightning

    from torch_distinput.frameworks.lightning import DataLoader

    fabric = lightning.Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()

    def make():
        loader = DataLoader(dataset(), 4, shuffle=True, device=fabric.device if device else None)
        return loader, loader if device else fabric.setup_dataloaders(loader)

    loader, wrapped = make()
    seen = []
    for epoch in range(3):
        for step, (rows, _) in enumerate(wrapped):
            seen.append(rows.tolist())
            assert loader.last_info.valid == (len(rows),)
            if step == 1:
                fabric.save(f"{path}/{epoch}", {"loader": wrapped})
    resumed = []
    for epoch in range(3):
        loader, again = make()
        fabric.load(f"{path}/{epoch}", {"loader": again}, weights_only=False)
        resumed.append([rows.tolist() for _ in range(epoch, 3) for rows, _ in again])
    return seen, resumed


@pytest.mark.parametrize("device", [False, True])
def test_fabric_goes_on_in_any_epoch(device, tmp_path):
    ranks = returned(run_ranks(with_fabric, 2, str(tmp_path), device, limit=100))
    for seen, resumed in ranks:
        assert resumed == [seen[2:], seen[6:], seen[10:]]
    for epoch in range(3):
        rows = [row for seen, _ in ranks for part in seen[4 * epoch : 4 * epoch + 4] for row in part]
        assert sorted(rows) == list(range(ROWS))


def make_sharded_module():
    import lightning
    from torch.distributed.fsdp import FSDPModule, fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.ReLU(), torch.nn.Linear(8, CLASSES))
            self.seen = []

        def configure_model(self):
            if isinstance(self.layers, FSDPModule):  # Lightning asks again
                return
            mesh = self.device_mesh
            parallelize_module(self.layers, mesh["tensor_parallel"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
            fully_shard(self.layers, mesh=mesh["data_parallel"])

        def training_step(self, batch, index):
            self.seen.append(batch[0].tolist())
            return torch.nn.functional.cross_entropy(self.layers(batch[0][:, None].float()), batch[1])

        def validation_step(self, batch, index):
            self.seen.append(batch[0].tolist())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    return Module()


def over_a_mesh(rank, made, folder):
    launched(rank, 4)
    from lightning.pytorch.strategies import ModelParallelStrategy

    from torch_distinput.frameworks.lightning import DataLoader

    module = make_sharded_module()
    train = None
    if made == "in a hook":
        module.train_dataloader = lambda: tdi.DataLoader(dataset(), 4, shuffle=True, distributed=module.device_mesh)
    else:
        train = DataLoader(dataset(), 4, shuffle=True)
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=2)
    trainer = make_trainer(folder, strategy=strategy, max_epochs=1)
    trainer.fit(module, train)
    trained, module.seen = module.seen, []
    trainer.validate(module, DataLoader(dataset(), 4), verbose=False)
    return trained, module.seen


@pytest.mark.parametrize("made", ["before", "in a hook"])
def test_tensor_parallel_ranks_of_a_strategy_get_the_same_rows(made, tmp_path):
    of_ranks = returned(run_ranks(over_a_mesh, 4, made, str(tmp_path), limit=200))
    assert of_ranks[0] == of_ranks[1] and of_ranks[2] == of_ranks[3]
    for mine, others in zip(of_ranks[0], of_ranks[2]):
        assert len(mine) == len(others)
        assert sorted(row for part in mine + others for row in part) == list(range(ROWS))


def fabric_over_a_mesh(rank):
    launched(rank, 4)
    import lightning
    from lightning.fabric.strategies import ModelParallelStrategy

    from torch_distinput.frameworks.lightning import DataLoader

    strategy = ModelParallelStrategy(lambda model, mesh: model, data_parallel_size=2, tensor_parallel_size=2)
    fabric = lightning.Fabric(accelerator="cpu", devices=4, strategy=strategy)
    fabric.launch()
    return [rows.tolist() for rows, _ in fabric.setup_dataloaders(DataLoader(dataset(), 4, shuffle=True))]


def test_tensor_parallel_ranks_of_fabric_get_the_same_rows():
    of_ranks = returned(run_ranks(fabric_over_a_mesh, 4, limit=200))
    assert of_ranks[0] == of_ranks[1] and of_ranks[2] == of_ranks[3]
    assert sorted(row for part in of_ranks[0] + of_ranks[2] for row in part) == list(range(ROWS))


class Halves(torch.utils.data.IterableDataset):
    """The rows that this rank reads for itself: one more on rank 0."""

    def __iter__(self):
        rank = int(os.environ["RANK"])
        return ((torch.tensor(row), torch.tensor(LABELS[row])) for row in range(rank, ROWS, 2))


def over_streams(rank, folder):
    launched(rank, 2)
    from lightning.pytorch.callbacks import ModelCheckpoint

    make = loader_class("import line")
    epochs = ModelCheckpoint(folder, "{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    seen, resumed = make_module(), make_module()
    make_trainer(folder, epochs, enable_checkpointing=True, max_epochs=2).fit(seen, make(Halves(), 2))
    path = f"{folder}/epoch=0.ckpt"
    make_trainer(folder, max_epochs=2).fit(resumed, make(Halves(), 2), ckpt_path=path, weights_only=False)
    return seen.seen, resumed.seen


def test_streams_of_different_lengths_end_together(tmp_path):
    ranks = returned(run_ranks(over_streams, 2, str(tmp_path), limit=100))
    for seen, resumed in ranks:
        # Rank 1 has no row for an eighth step, so the last row of rank 0 joins its seventh.
        assert [number for number, _ in seen] == [0] * 7 + [1] * 7
        assert resumed == seen[7:]
    assert sorted(row for seen, _ in ranks for number, part in seen if number == 0 for row in part) == list(range(ROWS))


def what_lightning_exchanges(rank, folder):
    """The rows that a loader of the plain class yields, and what is said of samplers that it cannot take."""
    launched(rank, 2)
    make, seen, said = loader_class("import line"), [], []
    module = make_module()
    module.validation_step = lambda batch, batch_idx: seen.extend(batch[0].tolist())
    make_trainer(folder).validate(module, tdi.DataLoader(dataset(), 4), verbose=False)
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * ROWS, ROWS)  # shared, and so not exchanged
    make_trainer(folder).fit(make_module(), make(dataset(), 4, sampler=weighted))
    subset = torch.utils.data.SubsetRandomSampler(range(ROWS))
    for loader, settings in ((make(dataset(), 4, sampler=subset), {}), (make(dataset(), 4), {"overfit_batches": 2})):
        try:
            make_trainer(folder, **settings).fit(make_module(), loader)
        except ValueError as error:
            said.append(str(error))
    return seen, said


def test_samplers_that_lightning_exchanges_repeat_rows_or_are_refused(tmp_path):
    ranks = returned(run_ranks(what_lightning_exchanges, 2, str(tmp_path), limit=100))
    seen = [row for seen, _ in ranks for row in seen]
    assert set(seen) == set(range(ROWS)) and len(seen) == ROWS + 1
    for _, said in ranks:
        assert len(said) == 2 and all("would shard them a second time" in text for text in said)
