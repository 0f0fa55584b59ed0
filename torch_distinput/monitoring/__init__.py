# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What a running loader tells to progress bars, TensorBoard and Prometheus.

`Meter` needs no other package. `torch_distinput.monitoring.tensorboard` writes to a `SummaryWriter`, and
`torch_distinput.monitoring.prometheus` needs prometheus_client: `pip install 'torch_distinput[monitoring]'`.
"""

from torch_distinput.monitoring._meter import Meter, Speed

__all__ = ["Meter", "Speed"]
