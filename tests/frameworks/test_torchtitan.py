# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""torchtitan builds, feeds from and checkpoints this library's loader: its own Trainer runs, on CPUs.

With TDI_TORCHTITAN=FOLDER, the tests run with the source tree of torchtitan in FOLDER instead of the installed release.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from processes import run_script
from ranks import returned, run_ranks
from torch.utils import data

import torch_distinput as tdi
from torch_distinput.frameworks import _token_batches


def rows(loader):
    return [batch.tolist() for batch in loader]


class Numbers(data.IterableDataset):
    """Data rank r's own: 10 r, 10 r + 1, ..."""

    def __init__(self, rank):
        self.first, self.next = 10 * rank, 0

    def __iter__(self):
        while self.next < 7:
            self.next += 1
            yield self.first + self.next - 1
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


def dataset_of(kind, rank):
    return torch.arange(29) if kind == "rows" else Numbers(rank)


# One that is installed and cannot be adapted is a failure, not a reason to skip.
needs_torchtitan = pytest.mark.skipif(find_spec("torchtitan") is None, reason="torchtitan is not installed")


def of_torchtitan(rank, kind, folder, world_before, stop):
    from torch_distinput.frameworks import torchtitan

    world = dist.get_world_size()
    loader = torchtitan.DataLoader(
        dataset_of(kind, rank), rank, world, batch_size=2 * 4 // world, snapshot_every_n_steps=3
    )
    assert isinstance(loader, torchtitan.BaseDataLoader)
    if world_before:
        dcp.load({"dataloader": loader}, checkpoint_id=folder)
    iterator = iter(loader)
    seen = [next(iterator).tolist() for _ in range(stop)]
    if not world_before:
        dcp.save({"dataloader": loader}, checkpoint_id=folder)
    return seen, rows(iterator)


@needs_torchtitan
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "world"), [("rows", 2), ("rows", 4), ("streams", 2)])
def test_torchtitans_checkpoints_hold_the_position(kind, world, tmp_path):
    before = returned(run_ranks(of_torchtitan, 2, kind, str(tmp_path), 0, 2, limit=100))
    after = returned(run_ranks(of_torchtitan, world, kind, str(tmp_path), 2, 0, limit=100))
    seen = [row for seen, _ in before for part in seen for row in part]
    rest = [row for _, rest in after for part in rest for row in part]
    everything = list(range(29)) if kind == "rows" else [*range(7), *range(10, 17)]
    assert sorted(seen + rest) == everything
    if world == 2:
        assert [rest for _, rest in after] == [rest for _, rest in before]


BASE = """
from torch.distributed.checkpoint.stateful import Stateful


class BaseDataLoader(Stateful):
    class Config:
        pass
"""


def mixture(lines):
    """Lines of both halves of the files, through a window, cut into streams."""
    files = [str(file) for file in sorted(lines.iterdir())]
    halves = [tdi.TextLineDataset(half, index=False).to_number() for half in (files[::2], files[1::2])]
    mixed = tdi.Dataset.sample_from_datasets(halves, [1, 2], seed=3).shuffle(4, seed=5)
    return mixed.with_options(tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS))


def of_streams(rank, package, lines, before, after, steps):
    if package is not None:
        sys.path.insert(0, package)
    from torch_distinput.frameworks import torchtitan

    loader = torchtitan.DataLoader(mixture(lines), rank, dist.get_world_size(), batch_size=3)
    if before is not None:
        dcp.load({"dataloader": loader}, checkpoint_id=before)
    iterator = iter(loader)
    seen = [next(iterator).tolist() for _ in range(steps)]
    dcp.save({"dataloader": loader}, checkpoint_id=after)
    return torchtitan.BaseDataLoader.__module__, seen, rows(iterator)


@pytest.fixture
def lines(tmp_path):
    folder = tmp_path / "lines"
    folder.mkdir()
    for file in range(14):
        (folder / f"{file:02}").write_text("".join(f"{file * 10 + row}\n" for row in range(file % 4 + 5)))
    return folder


@needs_torchtitan
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["torchtitan.components.dataloader", "torchtitan.components.data.loader"])
def test_streams_of_a_checkpoint_go_on_on_another_number_of_data_ranks(module, lines, tmp_path):
    package = None
    if module.endswith("data.loader"):
        package = str(tmp_path / "main")
        write_stand_in(tmp_path / "main", data__loader=BASE)
    seen, before = [], None
    for world, steps in ((3, 3), (2, 2), (5, 1)):
        after = str(tmp_path / f"of {world}")
        results = returned(run_ranks(of_streams, world, package, lines, before, after, steps, limit=100))
        assert {name for name, *_ in results} == {module}
        seen += [row for _, taken, _ in results for part in taken for row in part]
        before = after
    seen += [row for *_, rest in results for part in rest for row in part]
    assert sorted(seen) == sorted(int(line) for file in lines.iterdir() for line in file.read_text().split())


@needs_torchtitan
@pytest.mark.filterwarnings("ignore")
def test_streams_go_on_exactly_on_the_same_number_of_data_ranks(lines, tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    before = returned(run_ranks(of_streams, 3, None, lines, None, one, 4, limit=100))
    after = returned(run_ranks(of_streams, 3, None, lines, one, two, 0, limit=100))
    assert [rest for *_, rest in after] == [rest for *_, rest in before]


def of_another_group(rank):
    from torch_distinput.frameworks import torchtitan

    torchtitan.DataLoader(range(9), rank // 2, 2)


@needs_torchtitan
def test_torchtitans_data_ranks_are_those_of_the_group():
    for rank, error in enumerate(run_ranks(of_another_group, 4, limit=100)):
        assert isinstance(error, ValueError) and f"this process is {rank} of 4; pass the mesh dimension" in str(error)


def write_stand_in(folder, **files):
    """Makes a package `torchtitan` of these modules below `components`."""
    for name, text in files.items():
        module = folder / "torchtitan" / "components" / Path(*name.split("__"))
        module.parent.mkdir(parents=True)
        for package in [*module.parents][: len(module.relative_to(folder).parts) - 1]:
            (package / "__init__.py").touch()  # stands before an installed one
        module.with_suffix(".py").write_text(text)


def stand_in(folder, **files):
    """What the adapter's import says beside such a package."""
    write_stand_in(folder, **files)
    done = run_script(f"""
        import sys
        sys.path.insert(0, {str(folder)!r})
        from torch_distinput.frameworks.torchtitan import BaseDataLoader
        print(BaseDataLoader.__module__)
        """)
    return (done.stdout or done.stderr).splitlines()[-1]


@needs_torchtitan
def test_torchtitans_base_class_is_found_where_its_versions_have_it(tmp_path):
    base = "class BaseDataLoader:\n    class Config: pass"
    assert stand_in(tmp_path / "old", dataloader=base) == "torchtitan.components.dataloader"
    assert stand_in(tmp_path / "new", data__loader=base) == "torchtitan.components.data.loader"


@needs_torchtitan
def test_a_torchtitan_that_cannot_be_adapted_is_an_error_that_says_so(tmp_path):
    error = stand_in(tmp_path / "next", dataloader="class Renamed: pass")
    assert error.startswith(
        "ImportError: torch_distinput.frameworks.torchtitan: this torchtitan has no `BaseDataLoader`"
    )
    assert "No module named 'grain_'" in stand_in(tmp_path / "broken", data__loader="import grain_")


LENGTH = 8
DOCUMENT, NUM_DOCUMENTS = LENGTH + 1, 50


def documents():
    """Of 1 to 11 tokens, which are 0, 1, 2, ... in order."""
    lengths = [1 + 7 * i % 11 for i in range(80)]
    return list(torch.arange(sum(lengths)).split(lengths))


def packed_rows(tokenizer, length):
    from torch_distinput.frameworks import torchtitan

    assert tokenizer.encode([3]) == [3]
    return torchtitan.next_token_rows(tdi.Dataset.from_generator(documents, None).pack(length + 1))


def streams_of_rows(tokenizer, length):
    """Documents that fill a row each, each of them a stream."""
    from torch_distinput.frameworks import torchtitan

    def document(i):
        return tdi.Dataset.from_tensors(torch.arange(DOCUMENT * int(i), DOCUMENT * (int(i) + 1)))

    packed = tdi.Dataset.range(NUM_DOCUMENTS).flat_map(document).pack(length + 1)
    options = tdi.Options(auto_shard_policy=tdi.AutoShardPolicy.STREAMS)
    return torchtitan.next_token_rows(packed).with_options(options)


def inputs_with_labels():
    """The tokens with a token of the same document after them in a row of LENGTH + 1, in order."""
    packed = tdi.Dataset.from_generator(documents, None).pack(LENGTH + 1)
    return [token for row in packed for token in row["tokens"][:-1][row["loss_mask"][1:]].tolist()]


def trained(rank, dataset, kwargs):
    import titan_trainer

    return titan_trainer.train(rank, dataset, length=LENGTH, **kwargs)


def run(world, dataset=packed_rows, **kwargs):
    """What each of `world` ranks of torchtitan's Trainer trains on: inputs with a label, and shapes, of each step."""
    return [steps for steps, _ in returned(run_ranks(trained, world, dataset, kwargs, limit=240))]


def inputs_of(ranks):
    return [token for steps in ranks for inputs, _ in steps for token in inputs]


@needs_torchtitan
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_torchtitan_ends_together_and_resumes_on_other_ranks(tmp_path):
    arguments = {"rows": 2, "folder": str(tmp_path), "repeat": False}
    runs = [run(world, steps=until, **arguments) for world, until in ((3, 4), (2, 100))]
    assert {len(steps) for steps in runs[0]} == {4}
    assert len({len(steps) for steps in runs[1]}) == 1
    assert sorted(inputs_of(sum(runs, []))) == inputs_with_labels()


@needs_torchtitan
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_torchtitan_over_streams_resumes_on_other_ranks(tmp_path):
    arguments = {"dataset": streams_of_rows, "rows": 2, "folder": str(tmp_path), "repeat": False}
    runs = [run(world, steps=until, **arguments) for world, until in ((3, 3), (2, 6), (5, 100))]
    assert sorted(inputs_of(sum(runs, []))) == [token for token in range(450) if token % DOCUMENT != LENGTH]


@needs_torchtitan
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ranks_that_are_no_data_ranks_read_the_same_rows(tmp_path):
    ranks = run(4, rows=2, steps=100, folder=str(tmp_path), tensor_parallel=2, repeat=False)
    assert ranks[0] == ranks[1] != ranks[2] == ranks[3]
    assert sorted(inputs_of([ranks[0], ranks[2]])) == inputs_with_labels()


@needs_torchtitan
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("steps", [-1, 40])
def test_torchtitans_validator_reads_finite_data_to_their_end(steps, tmp_path):
    """And more steps than an epoch has from repeated data; training goes over several epochs."""
    ranks = run(2, rows=4, steps=15, folder=str(tmp_path), validate=steps)
    assert [len(steps) for steps in ranks] == [15, 15]
    inputs = inputs_of(ranks)
    assert set(inputs) == set(inputs_with_labels()) and len(inputs) > len(set(inputs))


def test_what_the_last_batch_lacks_has_no_labels():
    tokens = torch.arange(6).reshape(2, 3)
    inputs, labels = _token_batches.flat_batch(({"input": tokens, "positions": tokens % 3}, tokens), 8)
    assert inputs["input"].tolist() == [0, 1, 2, 3, 4, 5, 0, 0]
    assert inputs["positions"].tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert labels.tolist() == [0, 1, 2, 3, 4, 5, -100, -100]
    with pytest.raises(ValueError, match="a batch has 6 tokens; `num_tokens_per_batch` is 5"):
        _token_batches.flat_batch(({"input": tokens}, tokens), 5)
