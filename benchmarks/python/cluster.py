# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""How often does a cluster download its data, and how long do steps take, beside others?

    python benchmarks/python/cluster.py --rivals PYTHON --json benchmarks/results/cluster.json

Nodes are processes with a folder for local files and shared memory of their own, so that this needs the privileges of
root. They read 205 MB in random order from nginx over a relay, which adds 30 ms to an answer and passes 200 MB a second
to all of them together, in batches of 64 rows of 25 kB a node; a consumer works 50 ms for each. Each system has the
same rows in its own format, with shards of 4 MiB or row groups of 4 MB (LanceDB asks for rows), and two epochs: the
first begins with nothing, the second has what the first has left on the local disks. `downloads`: bytes that the server
has sent, all its answers counted, over those of the rows. `step_ms`: of all nodes, with the 50 ms, from the second step
on. `not_once`: rows that did not come exactly once.

PYTHON is an interpreter of an environment with the rivals, which this makes:

    python benchmarks/peers/install.py build/peers-remote mosaicml-streaming litdata lancedb
"""

import argparse
import json
import os
import subprocess
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import cluster_node
import machine
import numpy as np
import remote_relay
import remote_servers
import torch
import torch.distributed as dist

NODES, EPOCHS = 4, 2
LATENCY, LINK = 0.030, 200e6
# A node has shared memory of its own.
_OWN = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "node"]


class Nodes:
    """A system on all nodes."""

    def __init__(self, stack: ExitStack, python: str, name: str, folder: Path):
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._processes = []
        for node in range(NODES):
            local = folder / str(node)
            local.mkdir(parents=True)
            words = [name, str(local), node, NODES, self._store.port]
            command = [*_OWN, python, cluster_node.__file__, *map(str, words)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command, text=True, **pipes)
            stack.callback(process.wait)
            stack.callback(process.kill)
            self._processes.append(process)

    def epoch(self, url: str) -> list[dict]:
        for process in self._processes:
            process.stdin.write(url + "\n")
            process.stdin.flush()
        return [json.loads(process.stdout.readline() or '{"failed": "it ended"}') for process in self._processes]


def figures(answers: list[dict], sent: int) -> dict:
    seen = Counter(row for answer in answers for row in answer["rows"])
    steps = [step for answer in answers for step in answer["steps"][1:]]
    return {
        "downloads": round(sent / (cluster_node.ROWS * cluster_node.ROW_BYTES), 3),
        "not_once": sum(seen[row] != 1 for row in range(cluster_node.ROWS)),
        "seconds": round(max(sum(answer["steps"]) for answer in answers), 2),
        "first_batch_ms": round(1e3 * max(answer["steps"][0] for answer in answers)),
        "step_ms": {
            "median": round(1e3 * float(np.median(steps)), 1),
            "p99": round(1e3 * float(np.quantile(steps, 0.99)), 1),
        },
    }


def epochs(servers: remote_servers.Servers, python: str, name: str, folder: Path) -> dict:
    with ExitStack() as stack:
        relay = stack.enter_context(remote_relay.Relay(servers.plain))
        nodes = Nodes(stack, python, name, folder)

        def sent() -> int:
            return relay.shape(latency=LATENCY / 2, total_bandwidth=LINK)

        found = {}
        for epoch in range(EPOCHS):
            before = sent()
            answers = nodes.epoch(relay.url)
            failed = next((answer["failed"] for answer in answers if "failed" in answer), None)
            if failed is not None:
                return {"no_figure": failed}
            found[f"epoch {epoch + 1}"] = figures(answers, sent() - before)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--rivals", metavar="PYTHON", required=True, help="an interpreter that can import the rivals")
    parser.add_argument("--only", action="append", help="this system only, or several of them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    neighbours, measured = machine.Neighbours(), {}
    with tempfile.TemporaryDirectory() as name, remote_servers.serve(Path(name), 1.0) as servers:
        data = servers.data / cluster_node.BUCKET
        data.mkdir()
        for writer in cluster_node.WRITERS.values():
            call = f"import sys, pathlib, cluster_node; cluster_node.{writer.__name__}(pathlib.Path(sys.argv[1]))"
            where = os.environ | {"PYTHONPATH": str(Path(cluster_node.__file__).parent)}
            subprocess.run([arguments.rivals, "-c", call, str(data)], env=where, check=False, capture_output=True)
        for number, system in enumerate(arguments.only or cluster_node.SYSTEMS):
            measured[system] = epochs(servers, arguments.rivals, system, Path(name) / f"local{number}")
            print(system, json.dumps(measured[system]), flush=True)
    if arguments.json:
        facts = {
            "nodes": NODES,
            "rows": cluster_node.ROWS,
            "row_bytes": cluster_node.ROW_BYTES,
            "system_cores": round(neighbours.cores(), 2),
        }
        content = {**machine.describe(("torch", "pyarrow")), **facts, "systems": measured}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
