# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Lightning: the DataLoader for its Trainer and Fabric.

    from torch_distinput.frameworks.lightning import DataLoader    # instead of torch.utils.data

Lightning makes torch's loader anew with a DistributedSampler, which repeats rows. It leaves this one as it is.
"""

import functools
import inspect
import os
from typing import Any

from torch_distinput.frameworks._distribute import TAIL
from torch_distinput.frameworks._lightning_meshes import follow_meshes
from torch_distinput.loader import _data_loader as data_loader


class DataLoader(data_loader.DataLoader):
    """`torch_distinput.DataLoader`, distributed over the processes of the Trainer or Fabric, also over a single one.
    Processes that a ModelParallelStrategy puts into one tensor-parallel group get the same rows.

    Only defaults differ: `distributed=True`; `tail`, unless `drop_last` is given, leaves no part without rows if
    possible; and `seed` of `shuffle=True` is that of `seed_everything`, else 0, as in Lightning's own sampler. So the
    order is known after a checkpoint of the end of an epoch, from which Lightning restores no state of the loader.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        given = _SIGNATURE.bind(self, *args, **kwargs).arguments
        defaults: dict[str, Any] = {"distributed": True}
        if not given.get("drop_last"):
            defaults["tail"] = TAIL
        if given.get("shuffle"):
            defaults["seed"] = int(os.environ.get("PL_GLOBAL_SEED", "0"))
        super().__init__(*args, **defaults | kwargs)
        follow_meshes()


# Lightning passes on what the signature names.
functools.update_wrapper(DataLoader.__init__, data_loader.DataLoader.__init__)

_SIGNATURE = inspect.signature(data_loader.DataLoader.__init__)
