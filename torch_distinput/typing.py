# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Types for annotations: the words that arguments take.

>>> from torch_distinput.typing import Tail
>>> def loader(tail: Tail) -> tdi.DataLoader[torch.Tensor]:
...     return tdi.DataLoader(torch.arange(5), batch_size=2, tail=tail)
"""

from typing import Literal

# Of `InputOptions` and `DataLoader`.
Split = Literal["tf", "balanced", "lanes"]
Tail = Literal["zero_rows", "padded", "repeat", "drop", "until_first", "merge"]
Order = Literal["torch"]
OnError = Literal["raise", "skip"]
OnWorkerDeath = Literal["raise", "restart"]
SharedBy = Literal["node", "broadcast"]
SequenceOrder = Literal["head_tail", "contiguous"]
ReplicationMode = Literal["PER_WORKER", "PER_REPLICA"]

# Of strategies. `ReduceOp.of` takes other cases too.
Reduction = Literal["SUM", "MEAN", "sum", "mean"]
Rounds = Literal["store", "gloo"]

# Of datasets of files.
Compression = Literal["", "GZIP", "ZLIB"]
Index = bool | Literal["auto"]

# Of ops.
PackStrategy = Literal["greedy", "best_fit"]
StopOn = Literal["all", "first"]
SharesOf = Literal["elements", "tokens"]
Interpolation = Literal["nearest", "bilinear", "bicubic"]
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
ImageLayout = Literal["NCHW", "NHWC"]
BoxFormat = Literal["XYXY", "XYWH", "CXCYWH"]

# Of preprocessing layers; those of Keras.
OutputMode = Literal["int", "one_hot", "multi_hot", "count", "tf_idf"]
OutputModeAlias = Literal["binary", "tf-idf"]
OovMethod = Literal["floormod", "farmhash"]
Standardize = Literal["lower_and_strip_punctuation", "lower", "strip_punctuation"]
TextSplit = Literal["whitespace", "character"]
