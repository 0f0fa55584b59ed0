# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Reads rows through actors: `ray_trainer.py ADDRESS FOLDER STEPS`, and kills itself after STEPS steps, if not 0.

Each step's rows and the state after it are saved before the next one, as a checkpoint of every step would be.
"""

import json
import os
import signal
import sys
from pathlib import Path

import ray

import torch_distinput as tdi


def main() -> None:
    address, folder, steps = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    ray.init(address=address, log_to_driver=False)
    executor = tdi.Executor("ray", max_workers=2, worker_options={"num_cpus": 0.5})
    loader = tdi.DataLoader(tdi.Dataset.range(200).shuffle(seed=5), batch_size=3, executor=executor)
    state, rows = folder / "state", folder / "rows"
    if state.exists():
        loader.load_state_dict(json.loads(state.read_text()))
    for step, batch in enumerate(loader, start=1):
        with rows.open("a") as file:
            file.write("".join(f"{row} " for row in batch.tolist()))
        state.write_text(json.dumps(loader.state_dict()))
        if step == steps:
            os.kill(os.getpid(), signal.SIGKILL)
    loader.close()


if __name__ == "__main__":
    main()
