# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The examples run as programs, those for torchrun by its agent, and do what their docs say."""

import importlib.util
import re

import pytest
from decoders import needs_decoders
from ranks import run_example


def test_killed_workers_of_an_executor_change_no_row():
    output = run_example("19_executors.py")
    assert "1797 rows an epoch, the same as without workers: True" in output
    assert re.search(r"executor: \d of 2 workers, [1-4] lost", output)


def test_the_digits_example_learns_and_sees_every_row_once():
    output = run_example("01_train_digits.py")
    assert float(re.search(r"test accuracy: (\d\.\d+)", output)[1]) >= 0.95
    assert re.search(r"every one of the 1438 rows was seen once", output)
    assert re.search(r"evaluated 359 of 359 test rows", output)
    assert re.search(r"DistributedSampler with 3 ranks would have counted 360", output)


def test_the_tutorial_runs_from_end_to_end():
    """tests/python/docs/test_tutorial.py checks what its sections print."""
    output = run_example("02_tutorial.py")
    assert len(re.findall(r"^== ", output, re.MULTILINE)) == 14
    assert "[8] | [] | [] | []" in output


def test_a_torch_script_runs_with_another_import_line():
    output = run_example("05_drop_in.py")
    accuracies = [float(text) for text in re.findall(r"accuracy (\d\.\d+)", output)]
    assert len(accuracies) == 2 and min(accuracies) >= 0.9
    assert "the same rows, as often: True" in output and "the same test batches: True" in output
    assert "path: native" in output


def test_the_augmentation_example_draws_the_same_everywhere():
    output = run_example("06_augmentation.py")
    for promise in ("1 and 4 threads agree", "the next epoch differs", "resumed after batch 3 alike"):
        assert f"{promise}: True" in output


def test_the_preprocessing_example_gives_the_tutorials_numbers_in_both_places():
    output = run_example("14_preprocessing.py")
    numbers = "[1] | [3] | [0] | [1]\n[3] | [0] | [1] | [3]\n[0] | [1] | [3] | [0]\n"
    assert output.count(numbers) == 2
    assert "learned: ['[UNK]', 'good', 'bad', 'so']" in output
    assert float(re.search(r"loss: (\d\.\d+)", output)[1]) < 0.2


def test_uneven_data_trains_and_evaluates_every_row_on_three_processes():
    output = run_example("03_ddp_uneven.py", world=3)
    assert re.search(r"epoch 4: 23 steps on each of 3 ranks", output)
    assert float(re.search(r"evaluated 359 of 359 test rows, accuracy (\d\.\d+)", output)[1]) >= 0.9


def test_lightning_sees_every_row_of_uneven_data_once():
    pytest.importorskip("lightning")
    output = run_example("09_lightning.py")
    assert "1797 rows seen 3 to 3 times in 3 epochs" in output
    assert float(re.search(r"accuracy (\d\.\d+)", output)[1]) >= 0.9


def test_tensor_parallel_ranks_of_lightning_see_the_same_rows():
    pytest.importorskip("lightning")
    output = run_example("16_lightning_mesh.py", world=4)
    assert "719 + 719 of 1438 rows, the same on both ranks of each pair" in output


def test_the_stage_in_the_middle_of_a_pipeline_reads_nothing():
    output = run_example("17_pipeline.py", world=6)
    assert "epoch 3: 23 steps on each of 6 ranks, every row once" in output
    assert float(re.search(r"epoch 3: .* accuracy (\d\.\d+)", output)[1]) >= 0.9


def test_tensor_parallel_ranks_see_the_same_rows():
    output = run_example("10_meshes.py", world=4)
    assert re.search(r"epoch 3: 23 steps on each rank, 719 \+ 719 of 1438 rows", output)


def test_the_tabular_example_learns_and_resumes():
    pytest.importorskip("pyarrow")
    output = run_example("12_tabular.py")
    assert float(re.search(r"accuracy: (\d\.\d+)", output)[1]) >= 0.9
    assert output.startswith("40 batches of TensorSpec(shape=(None, 6)") and "resumed alike: True" in output


def test_the_language_model_sees_every_token_once_on_two_processes_and_then_on_one():
    output = run_example("13_language_model.py", world=2)
    assert re.search(r"every one of the \d+ tokens was seen once: True", output)
    assert "documents drawn from the corpora: (160, 50)" in output


@pytest.mark.slow
def test_texts_are_tokenized_once_on_three_then_two_then_five_processes(tmp_path):
    example, folder = "15_text_to_tokens.py", ["--folder", str(tmp_path)]
    output = run_example(example, *folder, "--steps", "8", world=3)
    assert "building of steps: from a plan" in output and "8 steps on 3 processes" in output
    assert "8 steps on 2 processes" in run_example(example, *folder, "--steps", "8", world=2)
    output = run_example(example, *folder, world=5)
    assert re.search(r"every one of the \d+ tokens was seen once: True", output)
    if importlib.util.find_spec("matplotlib"):
        assert (tmp_path / "mixture.png").stat().st_size > 10_000


@needs_decoders
def test_the_images_example_learns_and_writes_a_contact_sheet(tmp_path):
    pytest.importorskip("PIL")
    if importlib.util.find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed")
    output = run_example("11_images.py", "--sheet", str(tmp_path / "sheet.png"), "--epochs", "3")
    assert int(re.search(r"right in the last epoch: (\d+)%", output)[1]) >= 85
    assert (tmp_path / "sheet.png").stat().st_size > 10_000
