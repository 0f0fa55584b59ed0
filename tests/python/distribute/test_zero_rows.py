# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Models and losses on replicas without rows; rows back in order."""

import copy
import importlib.util
import pickle
import re
import warnings

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from places import ROOT
from ranks import returned, run_ranks
from torch import nn
from torch.utils.data import TensorDataset

import torch_distinput as tdi
from torch_distinput.distribute._input_options import TAILS

SPEC = tdi.TensorSpec([None, 2, 4], torch.float32)


class Rows(nn.Module):
    def forward(self, x):
        return x.reshape(len(x), -1)


def test_a_model_that_takes_zero_rows():
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.ReLU())
    torch.manual_seed(3)
    random = torch.get_rng_state()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    assert tdi.check_zero_rows(model, SPEC) is None
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(random, torch.get_rng_state())
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model.modules())


def test_the_layer_that_fails_is_named():
    model = nn.Sequential(nn.Identity(), nn.Sequential(Rows()))
    with pytest.raises(ValueError, match=r'forward pass.*in layer 1\.0 \(Rows\): .*tail="padded"'):
        tdi.check_zero_rows(model, SPEC)
    assert not model[1][0]._forward_hooks


def test_a_backward_pass_that_fails():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.PixelShuffle(2))
    with pytest.raises(ValueError, match="backward pass of zero rows failed"):
        tdi.check_zero_rows(model, tdi.TensorSpec([None, 1, 4, 4], torch.float32))


def test_gradients_that_are_nan():
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return (self.weight * x.sum() / len(x)).sqrt() + 0 * self.weight / len(x)

    with pytest.raises(ValueError, match="gradient of parameter 'weight' is not finite"):
        tdi.check_zero_rows(Mean(), SPEC)


def test_buffers_that_become_nan_are_named_and_restored():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(()))

        def forward(self, x):
            self.mean.copy_(x.mean())
            return x

    model = Running()
    with pytest.raises(ValueError, match="buffer 'mean' is not finite"):
        tdi.check_zero_rows(model, SPEC)
    assert model.mean.item() == 0


def test_specs_of_datasets_serve():
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    dataset = tdi.Dataset.from_tensor_slices((torch.zeros(6, 4), torch.zeros(6, dtype=torch.int64))).batch(2)

    def forward(x, y):
        assert x.shape == (0, 4)
        assert y.shape == (0,)
        assert y.dtype == torch.int64
        return nn.functional.cross_entropy(nn.Linear(4, 3)(x), y, reduction="sum")

    tdi.check_zero_rows(forward, strategy.distribute_dataset(dataset).element_spec)
    tdi.check_zero_rows(lambda batch: batch["x"], {"x": dataset.element_spec[0], "none": None})


@pytest.mark.parametrize(
    ("spec", "kind", "text"),
    [
        (tdi.TensorSpec([], torch.float32), ValueError, "dimension that counts rows"),
        (tdi.TensorSpec(None, torch.float32), ValueError, "dimension that counts rows"),
        (torch.float32, TypeError, "must hold TensorSpecs"),
    ],
)
def test_specs_of_wrong_types_or_without_rows_are_refused(spec, kind, text):
    with pytest.raises(kind, match=text):
        tdi.check_zero_rows(nn.Identity(), spec)


def test_batch_norm_refuses_one_row_not_none():
    """A statement of docs/zero_rows.md outside its table."""
    layer = nn.BatchNorm1d(3)
    assert layer(torch.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        layer(torch.zeros(1, 3))


def load_tool():
    path = ROOT / "tools" / "zero_rows_table.py"
    spec = importlib.util.spec_from_file_location("zero_rows_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_the_measured_table_is_up_to_date():
    tool = load_tool()
    text = tool.PAGE.read_text()
    measured = re.search(r"Measured with torch (\S+)", text)[1]
    if measured != torch.__version__.partition("+")[0]:
        pytest.skip(f"the table was measured with torch {measured}")
    assert tool.page(text) == text


def test_the_pages_program(capsys):
    program = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "zero_rows.md").read_text(), re.DOTALL)[1]
    with pytest.raises(ValueError, match=r"in layer 0 \(Rows\)"):
        exec(program, {})


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from(["zero_rows", "padded", "repeat"]),
    st.sampled_from(["tf", "balanced"]),
)
def test_restored_rows_are_the_rows_of_the_pipeline(replicas, rows, batch, tail, split):
    strategy = tdi.MirroredStrategy(["cpu"] * replicas)
    dataset = tdi.Dataset.range(rows).batch(batch)
    iterator = iter(strategy.distribute_dataset(dataset, tdi.InputOptions(tail=tail, split=split)))
    restored = []
    for step in iterator:
        predictions = strategy.run(lambda x: {"twice": 2 * x, "row": x.reshape(-1, 1)}, args=(step,))
        gathered = {name: strategy.gather(leaf, 0) for name, leaf in predictions.items()}
        info = pickle.loads(pickle.dumps(iterator.step_info))
        ordered = tdi.restore_order(gathered, info)
        assert ordered["row"].flatten().tolist() == [value // 2 for value in ordered["twice"].tolist()]
        restored += ordered["row"].flatten().tolist()
    assert restored[:rows] == list(range(rows))
    assert restored[rows:] == [row % rows for row in range(len(restored) - rows)]
    assert tail == "repeat" or len(restored) == rows


def test_rows_of_another_step_are_refused():
    strategy = tdi.MirroredStrategy(["cpu", "cpu"])
    iterator = iter(strategy.distribute_dataset(tdi.Dataset.range(4).batch(4)))
    next(iterator)
    with pytest.raises(ValueError, match=r"restore_order: `rows` must have the 4 rows of the step.*has shape \[3\]"):
        tdi.restore_order(torch.zeros(3), iterator.step_info)
    with pytest.raises(TypeError, match="restore_order: `rows` must be a tensor, but is a int"):
        tdi.restore_order(3, iterator.step_info)


def test_the_loss_helpers_want_tensors():
    info = tdi.StepInfo(0, 0, 0, [1], 1, 1, [1.0], True, [True])
    with pytest.raises(TypeError, match="distributed_mean: `loss_sum` must be a tensor, but is a float"):
        tdi.distributed_mean(1.0, info)
    with pytest.raises(TypeError, match="scaled_mean: `anchor` must be a tensor, but is a NoneType"):
        tdi.scaled_mean(torch.ones(()), info, None)


def distributed(rows, batch=4, replicas=2, **options):
    dataset = tdi.Dataset.range(rows).batch(batch)
    return tdi.MirroredStrategy(["cpu"] * replicas).distribute_dataset(dataset, tdi.InputOptions(**options))


def warnings_of(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [warning for warning in caught if "torch_distinput" in str(warning.message)]


def test_a_default_that_leaves_a_replica_without_rows_is_said_once():
    dataset = distributed(9)
    (said,) = warnings_of(lambda: [list(dataset), list(dataset)])
    assert said.category is UserWarning
    text = str(said.message)
    assert "the last step has 1 rows for 2 replicas" in text
    assert 'tail="merge"' in text and 'tail="zero_rows"' in text
    assert said.filename == __file__
    assert len(warnings_of(lambda: list(distributed(9)))) == 1


@pytest.mark.parametrize("tail", TAILS)
def test_a_tail_that_was_chosen_is_not_questioned(tail):
    assert not warnings_of(lambda: list(distributed(9, tail=tail)))


@pytest.mark.parametrize(
    ("rows", "batch", "replicas"),
    [(8, 4, 2), (10, 4, 2), (9, 4, 1), (1, 4, 2), (0, 4, 2)],  # with too few rows, nothing could be merged
)
def test_no_warning_where_merging_would_change_nothing(rows, batch, replicas):
    assert not warnings_of(lambda: list(distributed(rows, batch, replicas)))


def test_no_warning_where_only_the_data_can_tell():
    dataset = tdi.Dataset.range(9).batch(4).filter(lambda batch: True)
    assert not warnings_of(lambda: list(tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(dataset)))


def test_an_error_of_the_pipeline_is_raised_where_it_is_read(tmp_path):
    file = tmp_path / "lines"
    file.write_text("1\n2\n3\n")
    lines = tdi.TextLineDataset([str(file)], index=True).batch(2)
    dataset = tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(lines)
    file.unlink()
    iterator = iter(dataset)
    with pytest.raises(tdi.NotFoundError, match="no such file"):
        next(iterator)


def test_merging_says_once_where_it_could_not():
    dataset = distributed(1, tail="merge")
    (said,) = warnings_of(lambda: [list(dataset), list(dataset)])
    assert 'tail="merge" left a replica without rows in step 0' in str(said.message)
    assert said.filename == __file__
    middle = (
        tdi.Dataset.range(5).batch(4).repeat(2).with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.DATA))
    )
    strategy = tdi.MirroredStrategy(["cpu"] * 2)
    steps = strategy.distribute_dataset(middle, tdi.InputOptions(tail="merge"))
    assert "in step 1" in str(warnings_of(lambda: list(steps))[0].message)


def test_options_show_the_tail_that_applies_whoever_chose_it():
    given, default = tdi.InputOptions(tail="zero_rows"), tdi.InputOptions()
    assert default.tail == "zero_rows" and default == given and hash(default) == hash(given)
    assert repr(default) == repr(given)
    for copied in (copy.copy(default), pickle.loads(pickle.dumps(default))):
        dataset = tdi.MirroredStrategy(["cpu"] * 2).distribute_dataset(tdi.Dataset.range(9).batch(4), copied)
        assert len(warnings_of(lambda dataset=dataset: list(dataset))) == 1


def loaded(rank, kind, options):
    rows = TensorDataset(torch.arange(9))
    dataset = rows if kind == "native" else [(torch.tensor(row), str(row)) for row in range(9)]
    loader = tdi.DataLoader(dataset, 2, distributed=True, **options)
    said = warnings_of(lambda: [list(loader), list(loader)])
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize("kind", ["native", "indices"])
def test_rank_0_says_it_for_a_loader(kind):
    first, second = returned(run_ranks(loaded, 2, kind, {}))
    assert "the last step has 1 rows for 2 replicas" in first[0]
    assert len(first) == 1 and not second


@pytest.mark.parametrize("options", [{"tail": "zero_rows"}, {"drop_last": True}, {"tail": "merge"}])
def test_a_loader_with_a_tail_says_nothing(options):
    assert returned(run_ranks(loaded, 2, "native", options)) == [[], []]


def test_the_loader_shows_the_tail_that_applies():
    assert tdi.DataLoader(TensorDataset(torch.arange(9)), 2).tail == "zero_rows"


def counted(rank):
    loader = tdi.DataLoader(TensorDataset(torch.arange(9)), 2, distributed=True, tail="merge")
    return len(loader), [len(batch[0]) for batch in loader], loader.global_valid(0, 5), loader.global_valid(1)


def test_a_loader_counts_the_steps_and_rows_of_a_merged_epoch():
    assert returned(run_ranks(counted, 2)) == [(2, [2, 3], 9, 5), (2, [2, 2], 9, 5)]


def test_explain_tells_the_rows_of_the_last_step():
    text = distributed(9, tail="merge").explain()
    assert "tail: merge" in text
    assert "rows of the last step: 3, 2\n" in text
    assert "rows of the last step: 1, 0\n" in distributed(9, tail="zero_rows").explain().replace(" (made up)", "")
