# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How close to the limit of the link is data that is read over a network, beside others and beside bare receives?

    python benchmarks/python/remote.py --rivals PYTHON --json benchmarks/results/remote.json

All servers are of this machine: nginx on loopback, for bulk; a relay before it, which adds latency and limits
bandwidth, for the rest. PYTHON is an interpreter of an environment with the rivals, which this makes:

    python benchmarks/peers/install.py build/peers-remote \\
        obstore s3torchconnector s3fs aiohttp mosaicml-streaming litdata

Sides run in turn, in the opposite order, and so on; ratios are medians of the rounds' ratios.
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import machine
import numpy as np
import remote_limit
import remote_relay
import remote_rivals
import remote_servers
import torch

import torch_distinput as tdi

MIB = 1 << 20
RANGE, RANGES = 8 * MIB, 64  # of the bulk measure
LATENCY = 0.030  # seconds that the relay adds to an answer, in both directions together
SLOW = 20 * LATENCY  # seconds before the first byte of a slow answer
CONNECTION = 8e6  # bytes a second of a connection, in the measure of latency
LINK = 100e6  # bytes a second of all connections, where the link is the limit
STEP = 0.050  # seconds that the consumer of the step times works; the link could bring a batch in 32 ms
Sample = dict[str, float]
Sides = dict[str, Callable[[], Sample]]


def in_turn(sides: Sides, rounds: int) -> dict[str, list[Sample]]:
    """Runs all sides once to warm up, and then in alternating order."""
    for run in sides.values():
        run()
    samples: dict[str, list[Sample]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: 1 if number % 2 == 0 else -1]:
            samples[name].append(sides[name]())
    return samples


def medians(samples: dict[str, list[Sample]]) -> dict[str, Sample]:
    return {
        name: {key: round(statistics.median(one[key] for one in found), 4) for key in found[0]}
        for name, found in samples.items()
    }


def ratio(samples: dict[str, list[Sample]], key: str, of: str, to: str) -> float:
    pairs = zip(samples[of], samples[to], strict=True)
    return round(statistics.median(one[key] / other[key] for one, other in pairs), 3)


def timed(work: Callable[[], int]) -> Sample:
    """GB a second, and CPU seconds of this process a GB, of `work`, which returns bytes."""
    start, cpu = time.perf_counter(), time.process_time()
    size = work()
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    return {"GB_per_s": size / seconds / 1e9, "cpu_s_per_GB": used / size * 1e9}


def read_rows(url: str, shuffled: bool = False, **options) -> int:
    """Bytes of the rows of an array, one a batch."""
    rows = tdi.NumpyDataset(url)
    rows = rows.shuffle(seed=1) if shuffled else rows
    return sum(batch.nbytes for batch in rows.batch(1).with_options(tdi.Options(**options)))


def check_rows(url: str, path: Path) -> None:
    wanted = np.load(path, mmap_mode="r")
    found = [batch.numpy() for batch in tdi.NumpyDataset(url).batch(1)]
    if not np.array_equal(np.concatenate(found), wanted):
        raise SystemExit(f"remote.py: {url} has other rows")


def connections(url: str) -> int:
    """Open connections of this process to the server at `url`."""
    port = f":{int(url.rsplit(':', 1)[1]):04X}"
    lines = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(fields[2].endswith(port) and fields[3] == "01" for fields in lines)


def write_array(path: Path, shape: tuple[int, ...]) -> None:
    np.save(path, np.random.default_rng(7).integers(0, 256, shape, np.uint8))


def bulk(servers: remote_servers.Servers, rounds: int) -> dict:
    """Ranges of 8 MiB in order, beside bare receives over as many connections."""
    write_array(servers.data / "bulk.npy", (RANGES, RANGE))
    result = {}
    for name, url in (("http", servers.plain), ("https", servers.tls)):
        check_rows(f"{url}/bulk.npy", servers.data / "bulk.npy")
        count = connections(url)

        def limit(url: str = url, count: int = count) -> Sample:
            cost = remote_limit.receive(f"{url}/bulk.npy", remote_rivals.HEADER, RANGE, RANGES, count)
            size = RANGE * RANGES
            return {"GB_per_s": size / cost.wall / 1e9, "cpu_s_per_GB": cost.cpu / size * 1e9}

        def ours(url: str = url) -> Sample:
            return timed(lambda: read_rows(f"{url}/bulk.npy"))

        samples = in_turn({"limit": limit, "torch_distinput": ours}, rounds)
        result[name] = {
            "connections": count,
            "series": medians(samples),
            "of_limit": ratio(samples, "GB_per_s", "torch_distinput", "limit"),
            "cpu_of_limit": ratio(samples, "cpu_s_per_GB", "torch_distinput", "limit"),
        }
    return result


def latency(servers: remote_servers.Servers, rounds: int) -> dict:
    """Rows of 1 MiB in shuffled order over connections of limited bandwidth and 30 ms: as many bytes as the requests in
    flight can bring."""
    write_array(servers.data / "late.npy", (256, MIB))
    with remote_relay.Relay(servers.plain) as relay:
        relay.shape(latency=LATENCY / 2)
        ceiling = remote_limit.receive(f"{relay.url}/late.npy", remote_rivals.HEADER, MIB, 256, 32)
        relay.shape(latency=LATENCY / 2, bandwidth=CONNECTION)
        url = f"{relay.url}/late.npy"
        check_rows(url, servers.data / "late.npy")
        in_flight = 16
        # An announcement of 15 rows goes with the one that is taken.
        ahead = {"prefetch_bytes": (in_flight - 1) * MIB, "prefetch": 1}
        seconds = LATENCY + MIB / CONNECTION

        def limit() -> Sample:
            cost = remote_limit.receive(url, remote_rivals.HEADER, MIB, 256, in_flight)
            return {"GB_per_s": 256 * MIB / cost.wall / 1e9, "cpu_s_per_GB": cost.cpu / (256 * MIB) * 1e9}

        samples = in_turn(
            {"limit": limit, "torch_distinput": lambda: timed(lambda: read_rows(url, True, **ahead))}, rounds
        )
        opened = connections(relay.url)
    model = in_flight * MIB / seconds / 1e9
    series = medians(samples)
    return {
        "relay_ceiling_GB_per_s": round(256 * MIB / ceiling.wall / 1e9, 3),
        "in_flight": in_flight,
        "connections": opened,
        "model_GB_per_s": round(model, 4),
        "series": series,
        "of_model": round(series["torch_distinput"]["GB_per_s"] / model, 3),
        "limit_of_model": round(series["limit"]["GB_per_s"] / model, 3),
    }


def first_batch(servers: remote_servers.Servers, rounds: int) -> dict:
    """From opening to the first batch of 32 shuffled rows of 100 kB: two answers, that of the version, which has the
    head of an array, and that of the rows. The limit: as many bare receives one after the other."""
    name, size = f"{remote_rivals.BUCKET}/rows.npy", remote_rivals.ROW_BYTES
    batch = remote_rivals.BATCH
    with remote_relay.Relay(servers.plain) as relay:
        relay.shape(latency=LATENCY / 2, total_bandwidth=LINK)

        def limit() -> Sample:
            answer = remote_limit.receive(f"{relay.url}/{name}", 0, 1, 1, 1)
            rows = remote_limit.receive(f"{relay.url}/{name}", 0, size, batch, batch)
            return {"ms": 1e3 * (answer.wall + rows.wall)}

        def ours(open_rows: Callable[[str], tdi.Dataset]) -> Sample:
            url = f"{relay.url}/{name}?{time.monotonic_ns()}"  # nothing is known of it
            start = time.perf_counter()
            batches = iter(open_rows(url).shuffle(seed=1).batch(batch))
            next(batches)
            seconds = time.perf_counter() - start
            del batches
            time.sleep(1.0)  # what was asked for ahead leaves the link
            return {"ms": 1e3 * seconds}

        tokens = functools.partial(tdi.TokenDataset, dtype=np.uint16, sequence_length=size // 2 - 1, stride=size // 2)
        sides = {
            "limit": limit,
            "torch_distinput, tokens": lambda: ours(tokens),
            "torch_distinput, array": lambda: ours(tdi.NumpyDataset),
        }
        samples = in_turn(sides, rounds)
    model, series = 1e3 * (2 * LATENCY + batch * size / LINK), medians(samples)
    return {
        "model_ms": round(model, 1),
        "series": series,
        "of_model": round(series["torch_distinput, tokens"]["ms"] / model, 3),
        "of_limit": ratio(samples, "ms", "torch_distinput, tokens", "limit"),
    }


class Rival:
    """A system in a process of its own. `why`: it has no figure."""

    def __init__(self, python: str, name: str, folder: Path, errors):
        command = [python, remote_rivals.__file__, name, str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        self.why: str | None = None

    def __call__(self, url: str) -> Sample | None:
        if self.why is not None:
            return None
        self.process.stdin.write(url + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"failed": "it ended"}')
        self.why = answer.get("failed")
        if self.why is not None:
            return None
        size = answer["bytes"]
        return {"GB_per_s": size / answer["seconds"] / 1e9, "cpu_s_per_GB": answer["cpu"] / size * 1e9}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def rows(servers: remote_servers.Servers, python: str, rounds: int) -> dict:
    """Rows of 100 kB in shuffled order, by this library and others: on loopback, and at 30 ms."""
    folder = servers.data / remote_rivals.BUCKET
    result: dict = {"bytes": remote_rivals.ROWS * remote_rivals.ROW_BYTES}
    with ExitStack() as stack:
        errors = stack.enter_context(open(os.devnull, "w"))
        relay = stack.enter_context(remote_relay.Relay(servers.plain))
        relay.shape(latency=LATENCY / 2)
        systems = {name: Rival(python, name, folder, errors) for name in remote_rivals.SYSTEMS}
        for system in systems.values():
            stack.callback(system.close)
        for name, url, count in (("loopback", servers.plain, 32), ("30 ms", relay.url, 512)):
            for system in systems.values():
                system(url)  # warms up, and checks the first time
            working = [name for name, system in systems.items() if system.why is None]
            bare = [_bare_rows(url, count) for _ in range(rounds)]
            samples: dict[str, list[Sample]] = {each: [] for each in working}
            for number in range(rounds):
                for each in working[:: 1 if number % 2 == 0 else -1]:
                    if (sample := systems[each](url)) is not None:
                        samples[each].append(sample)
            samples = {each: found for each, found in samples.items() if len(found) == rounds}
            result[name] = {"limit_connections": count, **_beside_rivals(samples, bare)}
    result["no_figure"] = {name: system.why for name, system in systems.items() if system.why is not None}
    return result


def _bare_rows(url: str, connections: int) -> Sample:
    """Bare receives of the same ranges, in order."""
    number, size = remote_rivals.ROWS, remote_rivals.ROW_BYTES
    path = f"{url}/{remote_rivals.BUCKET}/rows.npy"
    cost = remote_limit.receive(path, remote_rivals.HEADER, size, number, connections)
    return {"GB_per_s": number * size / cost.wall / 1e9, "cpu_s_per_GB": cost.cpu / (number * size) * 1e9}


def _beside_rivals(samples: dict[str, list[Sample]], bare: list[Sample]) -> dict:
    series = medians({"limit": bare, **samples})
    rivals = [name for name in samples if not name.startswith("torch_distinput")]
    times = {name: ratio(samples, "GB_per_s", "torch_distinput", name) for name in rivals}
    best = min(times, key=times.get)
    return {"series": series, "times_as_fast_as": times, "best_rival": best, "times_best_rival": times[best]}


def errors(servers: remote_servers.Servers, rounds: int) -> dict:
    """Shuffled rows of 100 kB over a link of limited bandwidth and 30 ms, with 1 % of the answers 503 and without."""
    with ExitStack() as stack:
        sides: Sides = {}
        for name, url in (("no errors", servers.plain), ("1 % errors", servers.failing)):
            relay = stack.enter_context(remote_relay.Relay(url))
            relay.shape(latency=LATENCY / 2, total_bandwidth=LINK)
            sides[name] = functools.partial(_shuffled_epoch, relay.url)
        samples = in_turn(sides, rounds)
    return {"series": medians(samples), "of_no_errors": ratio(samples, "GB_per_s", "1 % errors", "no errors")}


def _shuffled_epoch(url: str) -> Sample:
    return timed(lambda: sum(batch.nbytes for batch in remote_rivals.ours(url, time.monotonic_ns() % 1000)))


def slow_requests(servers: remote_servers.Servers, rounds: int) -> dict:
    """p99 of the time of a step whose consumer works 50 ms, with 2 % of the answers 600 ms late and without."""
    with ExitStack() as stack:
        relays = {}
        for name, url in (("none slow", servers.plain), ("2 % slow", servers.late)):
            relays[name] = stack.enter_context(remote_relay.Relay(url))
            relays[name].shape(latency=LATENCY / 2, total_bandwidth=LINK)
        steps: dict[str, list[float]] = {name: [] for name in relays}
        for number in range(rounds + 1):
            for name in list(relays)[:: 1 if number % 2 == 0 else -1]:
                found = _step_times(relays[name].url, number)
                steps[name].extend(found if number > 0 else [])
    series = {
        name: {
            "steps": len(found),
            "median_ms": round(statistics.median(found) * 1e3, 2),
            "p99_ms": round(float(np.quantile(found, 0.99)) * 1e3, 2),
            "most_ms": round(max(found) * 1e3, 2),
        }
        for name, found in steps.items()
    }
    return {
        "series": series,
        "p99_of_none_slow": round(series["2 % slow"]["p99_ms"] / series["none slow"]["p99_ms"], 3),
    }


def _step_times(url: str, seed: int) -> list[float]:
    """Of two epochs, after one in which the rows that are read ahead have come."""
    rows = tdi.NumpyDataset(f"{url}/{remote_rivals.BUCKET}/rows.npy").shuffle(seed=seed).repeat(3)
    found, start = [], time.perf_counter()
    for _ in rows.batch(remote_rivals.BATCH):
        time.sleep(STEP)
        now = time.perf_counter()
        found.append(now - start)
        start = now
    return found[remote_rivals.ROWS // remote_rivals.BATCH :]


def goals(measured: dict) -> list[dict]:
    """The goals that the measured values are for."""
    wanted = (
        ("bulk, http: of bare receives", ("bulk", "http", "of_limit"), ">=", 0.90),
        ("bulk, https: of bare SSL_reads", ("bulk", "https", "of_limit"), ">=", 0.90),
        ("bulk, http: CPU of bare receives", ("bulk", "http", "cpu_of_limit"), "<=", 1.3),
        ("bulk, https: CPU of bare SSL_reads", ("bulk", "https", "cpu_of_limit"), "<=", 1.3),
        ("30 ms: of the model", ("latency", "of_model"), ">=", 0.90),
        ("first batch: of two answers and the bytes", ("first_batch", "of_model"), "<=", 1.5),
        ("shuffled rows of 100 kB, loopback: times the best rival", ("rows", "loopback", "times_best_rival"), ">=", 3),
        ("shuffled rows of 100 kB, 30 ms: times the best rival", ("rows", "30 ms", "times_best_rival"), ">=", 3),
        ("1 % errors: of none", ("errors", "of_no_errors"), ">=", 0.97),
        ("2 % slow: p99 of a step beside none", ("slow_requests", "p99_of_none_slow"), "<=", 1.2),
    )
    found = []
    for goal, path, relation, value in wanted:
        at: object = measured
        for key in path:
            at = at.get(key) if isinstance(at, dict) else None
        if at is not None:
            reached = at >= value if relation == ">=" else at <= value
            found.append({"goal": goal, "wanted": f"{relation} {value:g}", "measured": at, "reached": reached})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rivals", metavar="PYTHON", help="an interpreter that can import the rivals")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", help="this measure only, or several of them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    measured: dict = {}
    with tempfile.TemporaryDirectory() as folder, remote_servers.serve(Path(folder), SLOW) as servers:
        os.environ["SSL_CERT_FILE"] = str(servers.authority)
        remote_rivals.write_rows(servers.data / remote_rivals.BUCKET)
        measures = {
            "bulk": lambda: bulk(servers, arguments.rounds),
            "latency": lambda: latency(servers, arguments.rounds),
            "first_batch": lambda: first_batch(servers, arguments.rounds),
            "errors": lambda: errors(servers, arguments.rounds),
            "slow_requests": lambda: slow_requests(servers, arguments.rounds),
        }
        if arguments.rivals:
            measures["rows"] = lambda: rows(servers, arguments.rivals, min(arguments.rounds, 5))
        for name in arguments.only or measures:
            neighbours = machine.Neighbours()
            measured[name] = measures[name]()
            measured[name]["system_cores"] = round(neighbours.cores(), 2)
            print(name, json.dumps(measured[name], indent=1), flush=True)
    found = goals(measured)
    for one in found:
        print(f"{'reached' if one['reached'] else 'MISSED':7} {one['goal']}: {one['measured']:g} ({one['wanted']})")
    if arguments.json:
        content = {**machine.describe(("torch", "numpy")), "measures": measured, "goals": found}
        content["versions"] |= _versions(arguments.rivals) | {"libcurl": _libcurl()}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


def _libcurl() -> str:
    from torch_distinput import _C

    return " ".join(_C.curl_version().split()[:2])


def _versions(python: str | None) -> dict[str, str]:
    """Of the rivals' packages, as their interpreter says."""
    if python is None:
        return {}
    program = (
        "import json, sys; from importlib.metadata import version;"
        "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"
    )
    answer = subprocess.run([python, "-c", program, *remote_rivals.PACKAGES.values()], capture_output=True, text=True)
    return json.loads(answer.stdout) if answer.returncode == 0 else {}


if __name__ == "__main__":
    main()
