# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What progress bars, TensorBoard and Prometheus are told, through these packages themselves."""

import concurrent.futures
import io
import threading
import time
import urllib.request
from dataclasses import replace

import pytest
import torch
from torch_datasets import Indices

import torch_distinput as tdi
from torch_distinput.monitoring import Meter, Speed

ROWS = torch.arange(40)


class Counted:
    """An iterator whose counters are what a test says: batches of 4 rows, and seconds of waiting and of work."""

    def __init__(self):
        self.counters = tdi.Stats(rows=0)

    def take(self, batches: int, waited: float, worked: float) -> None:
        before = self.counters
        self.counters = replace(
            before,
            batches=before.batches + batches,
            rows=before.rows + 4 * batches,
            wait_seconds=before.wait_seconds + waited,
            consumer_seconds=before.consumer_seconds + worked,
        )

    def stats(self) -> tdi.Stats:
        return self.counters


def test_speed_is_that_between_two_looks():
    source = Counted()
    meter = Meter(source, interval=0.5)
    source.take(10, waited=0.25, worked=0.75)
    assert meter.look() == Speed(40.0, 10.0, 0.25, None)
    source.take(100, waited=0.1, worked=0.3)  # less than the interval
    assert meter.look() == Speed(40.0, 10.0, 0.25, None)
    source.take(2, waited=0.1, worked=1.5)
    speed = meter.look()
    assert speed.rows_per_second == pytest.approx(4 * 102 / 2) and speed.batches_per_second == pytest.approx(102 / 2)
    assert speed.wait_share == pytest.approx(0.1)
    source.take(1, waited=0.0, worked=1.0)
    assert meter.look().rows_per_second == pytest.approx(4)  # and not an average over all


def test_steps_are_counted_down_and_speed_is_that_of_the_loop():
    loader = tdi.DataLoader(ROWS, batch_size=4)
    meter = Meter(loader, interval=0.001)
    left = []
    for number, _ in enumerate(loader):
        time.sleep(0.002)
        speed = meter.look()
        left.append(speed.steps_left)
        assert number == 0 or 0 < speed.rows_per_second <= 2 * 4 / 0.002  # the last batch's work has not ended yet
    assert left == list(range(9, -1, -1))


def test_a_second_epoch_and_a_restored_one_count_from_their_own_begin():
    loader = tdi.DataLoader(ROWS, batch_size=4)
    meter = Meter(loader, interval=0.001)
    for _ in loader:
        time.sleep(0.0005)
        meter.look()
    steps = iter(loader)
    next(steps)
    assert meter.look().steps_left == 9
    again = tdi.DataLoader(ROWS, batch_size=4)
    again.load_state_dict(loader.state_dict())
    next(iter(again))
    assert Meter(again).look().steps_left == 8


def test_rows_that_python_makes_are_told_in_batches_and_waits_are_seen():
    loader = tdi.DataLoader(Indices(16, seconds=0.002), batch_size=4)
    meter = Meter(loader, interval=0.001)
    for _ in loader:
        speed = meter.look()
    assert speed.rows_per_second is None and 0 < speed.batches_per_second < 4 / (8 * 0.002)
    assert speed.wait_share > 0.8 and list(speed.postfix()) == ["batches/s", "wait", "left"]


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(TypeError, match=r"`source` must have stats\(\)"):
        Meter([1, 2])
    with pytest.raises(ValueError, match="`interval` must be above 0, but is 0"):
        Meter(tdi.DataLoader(ROWS), interval=0)


def test_an_iterator_without_a_length_has_no_steps_left():
    steps = iter(tdi.Dataset.range(8).batch(4))
    next(steps)
    assert Meter(steps).look().steps_left is None
    assert str(Speed(1234567.0, 2.0, 0.5)) == "1.23M rows/s, wait 50%"


def test_a_bar_of_tqdm_shows_it():
    tqdm = pytest.importorskip("tqdm")
    loader, shown = tdi.DataLoader(ROWS, batch_size=4), io.StringIO()
    with tqdm.tqdm(loader, file=shown, mininterval=0) as bar:
        meter = Meter(loader)
        for _ in bar:
            bar.set_postfix(meter.look().postfix())
    assert "rows/s=" in shown.getvalue() and "wait=" in shown.getvalue() and "left=0" in shown.getvalue()


def test_a_column_of_rich_shows_it():
    progress = pytest.importorskip("rich.progress")
    console = pytest.importorskip("rich.console").Console(file=io.StringIO(), width=120, force_terminal=True)
    loader = tdi.DataLoader(ROWS, batch_size=4)
    column = progress.TextColumn("{task.fields[input]}")
    with progress.Progress(progress.BarColumn(), column, console=console, auto_refresh=False) as bar:
        task, meter = bar.add_task("epoch", total=len(loader), input=""), Meter(loader)
        for _ in loader:
            bar.update(task, advance=1, input=str(meter.look()), refresh=True)
    assert "rows/s, wait" in console.file.getvalue() and "0 left" in console.file.getvalue()


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    from torch_distinput.monitoring.tensorboard import Scalars

    loader = tdi.DataLoader(Indices(16, seconds=0.002), batch_size=4)
    with SummaryWriter(tmp_path) as writer:
        scalars = Scalars(writer, loader)
        for step, _ in enumerate(loader):
            scalars.write(step)
        scalars.write_verdict(step)
        stats = loader.stats()
    events = EventAccumulator(str(tmp_path)).Reload()
    shares = events.Scalars("input/wait_share")
    assert [event.step for event in shares] == [0, 1, 2, 3] and 0 < shares[-1].value <= 1
    python = events.Scalars("input/seconds_per_batch/python")[-1].value
    assert python == pytest.approx(stats.python_seconds / 4, rel=1e-3) and python >= 4 * 0.002
    assert "input/rows_per_second" not in events.Tags()["scalars"]  # no counter has them
    assert b"python-bound" in events.Tensors("input/verdict/text_summary")[0].tensor_proto.string_val[0]


def test_prometheus_scrapes_the_counters_of_each_loader():
    client = pytest.importorskip("prometheus_client")
    from torch_distinput.monitoring.prometheus import StatsCollector

    registry = client.CollectorRegistry()
    train, test = tdi.DataLoader(ROWS, batch_size=4), tdi.DataLoader(Indices(16, seconds=0.002), batch_size=4)
    collector = StatsCollector({"train": train, "test": test}, registry)
    server, thread = client.start_http_server(0, "127.0.0.1", registry)
    try:
        steps, slow = iter(train), iter(test)
        for _ in range(3):
            next(steps)
        next(slow)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert 'torch_distinput_rows_total{loader="train"} 12.0' in text
    assert 'torch_distinput_rows_total{loader="test"}' not in text
    assert 'torch_distinput_wait_seconds_count{loader="train"} 3.0' in text
    assert 'torch_distinput_steps_left{loader="test"} 3.0' in text

    def sample(name, **labels):
        return registry.get_sample_value(f"torch_distinput_{name}", {"loader": "test"} | labels)

    assert sample("busy_seconds_total", stage="python") == test.stats().python_seconds >= 4 * 0.002
    assert sample("wait_seconds_bucket", le="0.002048") == 0 and sample("wait_seconds_bucket", le="+Inf") == 1
    registry.unregister(collector)
    assert list(registry.collect()) == []


def test_a_program_reads_on_while_it_is_scraped():
    client = pytest.importorskip("prometheus_client")
    from torch_distinput.monitoring.prometheus import StatsCollector

    registry = client.CollectorRegistry()
    loader = tdi.DataLoader(torch.arange(400), batch_size=4)
    StatsCollector({"train": loader}, registry)
    ended = threading.Event()

    def scrape():
        while not ended.is_set():
            assert 0 <= registry.get_sample_value("torch_distinput_batches_total", {"loader": "train"}) <= 100

    with concurrent.futures.ThreadPoolExecutor() as pool:
        scrapes = pool.submit(scrape)
        try:
            for _ in range(20):
                assert torch.equal(torch.cat(list(loader)), torch.arange(400))
        finally:
            ended.set()
        scrapes.result(60)
