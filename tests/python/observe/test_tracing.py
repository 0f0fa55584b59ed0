# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Traces of what threads do, for trace viewers, for torch.profiler and as a page."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from places import SUPPORT

import torch_distinput as tdi
from torch_distinput import _C
from torch_distinput.cli import main
from torch_distinput.cli._report_charts import COLORS

LIBRARY = Path(_C.__file__).parent / "lib" / "libtorch_distinput_cuda.so"


def slow_rows(x):
    time.sleep(0.001)
    return x


def traced(tmp_path, **arguments):
    loader = tdi.DataLoader(tdi.Dataset.range(24).map(slow_rows).batch(4).prefetch(2), batch_size=None)
    with tdi.trace(tmp_path / "run.json", loader, **arguments):
        batches = iter(loader)
        assert len([batch for batch in batches]) == 6
        stats = loader.stats()
    return json.loads((tmp_path / "run.json").read_text()), stats


def test_a_trace_has_the_stages_of_all_threads(tmp_path):
    document, stats = traced(tmp_path)
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {"next", "python", "build"} <= {span["name"] for span in spans}
    assert len({span["tid"] for span in spans}) >= 2
    named = {event["tid"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert {span["tid"] for span in spans} <= named
    assert sum(span["name"] == "next" for span in spans) == 7  # six batches and the end
    python = sum(span["dur"] for span in spans if span["name"] == "python") / 1e6
    assert python == pytest.approx(stats.python_seconds, rel=0.01)
    assert any(event["ph"] == "C" and event["args"]["room"] == 2 for event in document["traceEvents"])


def test_later_spans_are_counted_when_there_is_no_room(tmp_path):
    document, _ = traced(tmp_path, max_spans=3)
    assert sum(event["ph"] == "X" for event in document["traceEvents"]) == 3
    assert document["otherData"]["dropped"] > 0


def test_one_trace_at_a_time(tmp_path):
    with tdi.trace(tmp_path / "a.json"):
        with pytest.raises(RuntimeError, match="traced already"):
            tdi.trace(tmp_path / "b.json").__enter__()
    with tdi.trace(tmp_path / "a.json"):
        pass


def test_torch_profiler_shows_the_stages_of_all_threads():
    config = torch.profiler._ExperimentalConfig(profile_all_threads=True)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config
    ) as profile:
        list(tdi.Dataset.range(24).map(slow_rows).batch(4).prefetch(2))
    ranges = [event for event in profile.events() if event.name.startswith("tdi::")]
    assert {"tdi::next", "tdi::python"} <= {event.name for event in ranges}
    assert len({event.thread for event in ranges}) >= 2


def test_the_report_is_one_page_with_verdict_and_timeline(tmp_path, capsys):
    traced(tmp_path)
    main(["report", str(tmp_path / "run.json")])
    assert capsys.readouterr().out.strip() == str(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "python-bound" in page and page.count("<svg") == 3 and "tdi-" in page
    assert "└─ prefetch(buffer_size=2)" in page and "threads: tdi-pool (1)" in page
    assert "http" not in page and "<script" not in page


def test_a_browser_draws_the_report(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium is installed (Debian's package is `chromium`)")
    traced(tmp_path)
    main(["report", str(tmp_path / "run.json")])
    page, image = (tmp_path / "run.html").as_uri(), tmp_path / "run.png"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    shot = [browser, *flags, "--window-size=1100,1200", f"--screenshot={image}", page]
    subprocess.run(shot, check=True, capture_output=True, timeout=120)
    drawn = pytest.importorskip("PIL.Image").open(image).convert("RGB")
    assert drawn.size == (1100, 1200)
    seen = {color: count for count, color in drawn.getcolors(maxcolors=1 << 24)}
    for stage, least in (("python", 2000), ("wait", 200), ("next", 50)):  # of the timeline, and of the waits' bars
        assert seen.get(tuple(bytes.fromhex(COLORS[stage][1:])), 0) >= least, stage


NVTX_PROGRAM = """
import faulthandler
import time

faulthandler.dump_traceback_later(100, exit=True)  # says where it hangs
import torch_distinput as tdi

def slow(x):
    time.sleep(0.001)
    return x

assert len(list(tdi.Dataset.range(24).map(slow).batch(4).prefetch(2))) == 6
"""


def test_a_tool_that_reads_nvtx_sees_the_stages_on_their_threads(tmp_path):
    """A tool is what Nsight Systems puts in NVTX_INJECTION64_PATH; this one writes down what it gets."""
    compiler = shutil.which("cc")
    beside_nvcc = Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve().parents[1]
    folders = (beside_nvcc / "include", Path("/usr/local/cuda/include"), Path("/usr/include"))
    include = next((folder for folder in folders if (folder / "nvtx3").is_dir()), None)
    if not LIBRARY.exists() or compiler is None or include is None:
        pytest.skip("needs the library for CUDA, the headers of NVTX and a C compiler")
    tool, log = tmp_path / "tool.so", tmp_path / "ranges"
    source = SUPPORT / "nvtx_receiver.c"
    build = [compiler, "-shared", "-fPIC", f"-I{include}", "-o", tool, source, "-ldl"]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    environment = os.environ | {"NVTX_INJECTION64_PATH": str(tool), "NVTX_TEST_LOG": str(log)}
    subprocess.run([sys.executable, "-c", NVTX_PROGRAM], env=environment, check=True, timeout=120)
    ranges = {}
    for line in log.read_text().splitlines():
        thread, name = line.split()
        ranges.setdefault(thread, []).append(name)
    for events in ranges.values():
        depth = 0
        for event in events:
            depth += -1 if event == "pop" else 1
            assert depth >= 0
        assert depth == 0
    assert len(ranges) >= 2
    assert {"tdi::next", "tdi::python", "tdi::build"} <= {event for events in ranges.values() for event in events}
