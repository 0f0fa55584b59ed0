# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The installed package works in Python and in plain C++ programs; nothing here uses the copy in the source tree."""

import os
import re
import shutil
import sys
import tarfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from installed import HERE, ROOT, WORK, build, free_port, library_of, run, run_together
from torch.utils.cpp_extension import include_paths


def test_the_prefix_path_is_the_installed_package(site: Path, prefix: Path):
    assert prefix == site / "torch_distinput"
    assert (prefix / "py.typed").is_file()
    assert library_of(prefix).is_file()
    assert (prefix / "lib/cmake/torch_distinput/torch_distinput-config.cmake").is_file()


def test_every_public_header_is_installed_and_no_other(prefix: Path):
    installed = {p.relative_to(prefix / "include") for p in (prefix / "include").rglob("*") if p.is_file()}
    public = {p.relative_to(ROOT / "csrc/include") for p in (ROOT / "csrc/include").rglob("*.h")}
    assert installed == public


def test_the_version_names_the_torch_it_was_built_for(site: Path):
    ask = [sys.executable, "-m", "torch_distinput", "--version"]
    output = run(*ask, env={"PYTHONPATH": str(site)}, timeout=120)
    assert re.fullmatch(r"torch_distinput \d+\.\d+\.\d+ \(torch 2\.\d+\.\d+\)\n", output)


@pytest.fixture(scope="module")
def built(prefix: Path) -> dict[str, Future[Path]]:
    """All programs, built in parallel, because each has one file that takes long."""
    with ThreadPoolExecutor() as pool:
        return {project: pool.submit(build, project, prefix) for project in ("consumer", "headers", "processes")}


def test_a_plain_cpp_program_gets_every_row_once(built: dict[str, Future[Path]]):
    app = built["consumer"].result() / "app"
    output = run(app, timeout=60)
    assert sorted(int(row) for row in re.findall(r"^ *(\d+)$", output, re.MULTILINE)) == list(range(10)), output
    assert not re.search(r"lib(torch_)?python", run("ldd", app, timeout=60))


@pytest.mark.parametrize("size", [2, 3])
def test_processes_without_python_share_a_dataset_over_a_store(built: dict[str, Future[Path]], size: int):
    app = built["processes"].result() / "app"
    port = free_port()
    outputs = run_together([[app, port, rank, size] for rank in range(size)])
    shared = [re.findall(r"^shared (\d) (\d):((?: \d)*)$", output, re.MULTILINE) for output in outputs]
    assert all([(step, rows) for step, rows, _ in mine] == [("0", "4"), ("1", "4"), ("2", "2")] for mine in shared)
    assert sorted(int(row) for mine in shared for _, _, rows in mine for row in rows.split()) == list(range(10))
    # Rank r has 3 + 4 r rows of its own, two a step.
    lengths = [3 + 4 * rank for rank in range(size)]
    counts = [sum(max(0, min(2, n - 2 * step)) for n in lengths) for step in range(-(-lengths[-1] // 2))]
    for rank, output in enumerate(outputs):
        own = re.findall(r"^own (\d) (\d):((?: \d+)*)$", output, re.MULTILINE)
        assert [(int(step), int(valid)) for step, valid, _ in own] == list(enumerate(counts))
        rows = [int(row) for _, _, rows in own for row in rows.split()]
        assert rows == list(range(100 * rank, 100 * rank + lengths[rank]))


def test_the_package_names_no_path_of_this_source_tree(prefix: Path):
    for file in (prefix / "lib/cmake/torch_distinput").iterdir():
        assert str(ROOT / "csrc") not in file.read_text() and str(ROOT / "build/release") not in file.read_text()


# What the Python module needs beside the public headers: copies to devices, worker processes, measuring, and what is
# stored of files.
FOR_THE_PYTHON_MODULE = {
    *("DeviceStager", "open_device_context", "count_devices_with", "device_count"),
    *(
        "ConsumerEnd",
        "WorkerEnd",
        "WorkerActivity",
        "WorkerMemory",
        "SharedSegment",
        "SlabSpace",
        "SlabsInUse",
        "free_slab",
        "end_of_slab",
        "smallest_slab",
        "was_discarded",
        "take_discarded",
    ),
    *("curl_version", "look_for_curl_in", "shown_url"),
    *("HostReads", "PageLocks", "load_stored", "store_beside", "find_json_fault"),
    *("stored_url", "manifest_url", "encode_manifest", "decode_manifest", "forget_manifests"),
    *("deal_files", "host_place", "may_store", "share_on_host", "version_on_host"),
    *("can_be_encoded", "encode_tensors", "decode_tensors", "starts_share_store"),
    *("FrameSender", "FrameReceiver", "Bell", "VisibleToForks", "seen_by_forks", "end_with_process"),
    *("ForkGuard", "StageScope", "start_trace", "stop_trace", "available_cpus", "cpu_quota"),
    *("NodeScope", "cpus_of_nodes", "node_of_device", "node_of_pci_device", "place_near_device"),
    *("ReplicaRun", "ExchangeBroken"),
}


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_library_exports_the_names_of_its_headers_and_no_others(prefix: Path):
    headers = "\n".join(path.read_text() for path in (ROOT / "csrc/include").rglob("*.h"))
    public = set(re.findall(r"\w+", headers))
    public |= FOR_THE_PYTHON_MODULE
    listed = run("nm", "--dynamic", "--defined-only", "--demangle", "--format=posix", library_of(prefix), timeout=60)
    symbol = re.compile(
        r"(?:(?:typeinfo|typeinfo name|vtable) for )?torch_distinput::((?:testing::|preprocessing::)?(\w+))"
    )
    found = [(symbol.match(line), line) for line in listed.splitlines()]
    assert [line for match, line in found if match is None or match[2] not in public] == []
    names = {match[1] for match, _ in found if match}
    assert sorted(names) == (HERE / "exported_names.txt").read_text().split(), "a change is to be made on purpose"


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_cuda_library_exports_one_function(prefix: Path):
    library = prefix / "lib/libtorch_distinput_cuda.so"
    if not library.exists():
        pytest.skip("nvcc was not found when the package was built")
    listed = run("nm", "--dynamic", "--defined-only", "--format=posix", library, timeout=60)
    assert [line.split()[0] for line in listed.splitlines()] == ["tdi_cuda_functions"]


def test_every_public_header_compiles_alone(built: dict[str, Future[Path]]):
    built["headers"].result()


@pytest.mark.slow
def test_the_headers_add_little_to_what_torchs_own_cost_a_compiler(prefix: Path, tmp_path: Path):
    """What the compiler reads: unlike its time (benchmarks/python/cpp.py), that is the same each time."""

    def size(program: str) -> int:
        source = tmp_path / "program.cpp"
        source.write_text(program)
        folders = [f"-I{folder}" for folder in (*include_paths(), prefix / "include")]
        return len(run(os.environ.get("CXX", "c++"), "-std=c++20", "-E", "-P", *folders, source, timeout=300))

    bare = "#include <torch/torch.h>\n"
    assert size(bare + "#include <torch_distinput/torch_distinput.h>\n") < 1.01 * size(bare)


def test_the_library_links_torch_tbb_decoders_and_what_every_linux_has(prefix: Path):
    dynamic = run("readelf", "-d", library_of(prefix), timeout=60)
    needed = set(re.findall(r"NEEDED.*\[(.+)\]", dynamic))
    system = {name for name in needed if re.match(r"(libstdc\+\+|libgcc_s|libc|libm|libz|ld-linux.*)\.so", name)}
    images = {name for name in needed if re.match(r"lib(jpeg|png16|webp)\.so", name)}  # where they were found
    assert needed - system - images == {"libtorch_cpu.so", "libc10.so", "libtbb.so.12"}


def test_another_torch_is_refused_by_name(prefix: Path):
    fake = WORK / "other_torch"
    (fake / "lib").mkdir(parents=True, exist_ok=True)
    (fake / "lib/libtorch_cpu.so").touch()
    version = fake / "include/torch/headeronly/version.h"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 9\n#define TORCH_VERSION_PATCH 0\n")
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DTDI_TORCH_ROOT={fake}"]
    with pytest.raises(AssertionError, match=r"built for torch 2\.\d+, but torch\s+1\.9\.0 was\s+found"):
        run("cmake", "-S", HERE / "consumer", "-B", WORK / "refused", *options, timeout=120)


@pytest.mark.parametrize(
    ("fact", "value", "message"),
    [
        (
            "torch_version",
            '"1.9.0"',
            rf"built for torch 1\.9, but torch {re.escape(torch.__version__)} is installed: .+",
        ),
        ("tbb_interface_version", "99990", "built for oneTBB interface 99990, but an older one, .+"),
    ],
)
def test_an_unfit_environment_is_one_clear_import_error(
    site: Path, tmp_path: Path, fact: str, value: str, message: str
):
    package = tmp_path / "torch_distinput"
    shutil.copytree(site / "torch_distinput", package, ignore=shutil.ignore_patterns("include", "__pycache__"))
    facts = package / "_build.py"
    facts.write_text(re.sub(rf"(?m)^{fact} = .*$", f"{fact} = {value}", facts.read_text()))
    program = "try:\n import torch_distinput\nexcept ImportError as error:\n print(error)"
    output = run(sys.executable, "-c", program, env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path, timeout=120)
    assert re.fullmatch(f"torch_distinput was {message}\n", output)


def test_the_source_distribution_is_complete(tmp_path: Path):
    make = "import sys, setuptools.build_meta as backend; print(backend.build_sdist(sys.argv[1]))"
    name = run(sys.executable, "-c", make, tmp_path, cwd=ROOT, timeout=120).splitlines()[-1]
    with tarfile.open(tmp_path / name) as archive:
        packed = {member.split("/", 1)[1] for member in archive.getnames() if "/" in member}
    needed = {"CMakeLists.txt", "pyproject.toml", "setup.py", "LICENSE", "README.md", "torch_distinput/py.typed"}
    for folder in ("csrc", "cmake", "tools", "torch_distinput"):
        files = (p for p in (ROOT / folder).rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cmake", ".in", ".py"})
        needed |= {p.relative_to(ROOT).as_posix() for p in files}
    built = ("torch_distinput/include/", "torch_distinput/lib/", "torch_distinput/_build.py")
    needed = {name for name in needed if not name.startswith(built)}
    assert needed <= packed, sorted(needed - packed)
    assert not [name for name in packed if name.startswith(built) or name.endswith(".so")]
