# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Exact distributed data loading for PyTorch.

A `Dataset` describes where elements come from and what happens to them; a strategy's `distribute_dataset` assigns the
rows of each global batch to replicas. Every row reaches exactly one replica, exactly once an epoch, at any world size.

Examples in docstrings assume `import torch` and `import torch_distinput as tdi`.
"""

from torch_distinput import _library

_library.load()

import torch_distinput.base._pickled_natives  # noqa: E402
import torch_distinput.frameworks  # noqa: E402, F401 - registers with the loader
from torch_distinput import compat, preprocessing, testing  # noqa: E402
from torch_distinput._build import version as __version__  # noqa: E402
from torch_distinput._C import (  # noqa: E402
    INFINITE,
    SHARD_HINT,
    UNKNOWN,
    AutoShardPolicy,
    DamagedPictureError,
    DatasetIterator,
    DatasetSpec,
    DistributedDatasetError,
    FailedPreconditionError,
    InputContext,
    InputReplicationMode,
    InvalidArgumentError,
    NotFoundError,
    OpaqueSpec,
    Options,
    OutOfRangeError,
    RaggedTensorSpec,
    RemoteError,
    Skip,
    SparseTensorSpec,
    StepInfo,
    StringSpec,
    TensorSpec,
    UnequalRowsError,
    ValueContext,
    random,
)
from torch_distinput.base._spec import PerReplicaSpec  # noqa: E402
from torch_distinput.datasets._archives import TarDataset, ZipDataset  # noqa: E402
from torch_distinput.datasets._arrays import NumpyDataset, SafetensorsDataset, ZarrDataset  # noqa: E402
from torch_distinput.datasets._column_files import CsvDataset, JsonLinesDataset, ParquetDataset  # noqa: E402
from torch_distinput.datasets._dataset import Dataset  # noqa: E402
from torch_distinput.datasets._files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset  # noqa: E402
from torch_distinput.datasets._image_folder import ImageFolder  # noqa: E402
from torch_distinput.datasets._record_writer import TFRecordWriter, example  # noqa: E402
from torch_distinput.datasets._source_row import SourceRow  # noqa: E402
from torch_distinput.datasets._table_snapshots import DeltaDataset, IcebergDataset, LanceDataset  # noqa: E402
from torch_distinput.datasets._token_files import TokenDataset  # noqa: E402
from torch_distinput.distribute._base_strategy import Strategy  # noqa: E402
from torch_distinput.distribute._distributed import DistributedDataset, DistributedIterator, Optional  # noqa: E402
from torch_distinput.distribute._from_env import process_group_from_env  # noqa: E402
from torch_distinput.distribute._input_options import InputOptions  # noqa: E402
from torch_distinput.distribute._losses import distributed_mean, restore_order, scaled_mean  # noqa: E402
from torch_distinput.distribute._membership import Membership, StepMembers  # noqa: E402
from torch_distinput.distribute._multi_worker import MultiWorkerMirroredStrategy  # noqa: E402
from torch_distinput.distribute._reduce import ReduceOp  # noqa: E402
from torch_distinput.distribute._replica import ReplicaContext, get_replica_context  # noqa: E402
from torch_distinput.distribute._sequence_cut import SequenceCut  # noqa: E402
from torch_distinput.distribute._strategy import MirroredStrategy, OneDeviceStrategy, get_strategy  # noqa: E402
from torch_distinput.distribute._values import PerReplica  # noqa: E402
from torch_distinput.distribute._zero_rows import check_zero_rows  # noqa: E402
from torch_distinput.executors._executor import Executor  # noqa: E402
from torch_distinput.loader._data_loader import DataLoader  # noqa: E402
from torch_distinput.observe._members import MemberStats  # noqa: E402
from torch_distinput.observe._network import NetworkStats  # noqa: E402
from torch_distinput.observe._stats import Stats, Verdict  # noqa: E402
from torch_distinput.observe._tracing import trace  # noqa: E402
from torch_distinput.observe._workers import WorkersStats  # noqa: E402
from torch_distinput.ops._records import (  # noqa: E402
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)

__all__ = [
    "AutoShardPolicy",
    "CsvDataset",
    "DamagedPictureError",
    "DataLoader",
    "Dataset",
    "DatasetIterator",
    "DatasetSpec",
    "DeltaDataset",
    "DistributedDataset",
    "DistributedDatasetError",
    "DistributedIterator",
    "Executor",
    "FailedPreconditionError",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "FixedLengthRecordDataset",
    "INFINITE",
    "IcebergDataset",
    "ImageFolder",
    "InputContext",
    "InputOptions",
    "InputReplicationMode",
    "InvalidArgumentError",
    "JsonLinesDataset",
    "LanceDataset",
    "MemberStats",
    "Membership",
    "MirroredStrategy",
    "MultiWorkerMirroredStrategy",
    "NetworkStats",
    "NotFoundError",
    "NumpyDataset",
    "OneDeviceStrategy",
    "OpaqueSpec",
    "Optional",
    "Options",
    "OutOfRangeError",
    "ParquetDataset",
    "PerReplica",
    "PerReplicaSpec",
    "RaggedFeature",
    "RaggedTensorSpec",
    "ReduceOp",
    "RemoteError",
    "ReplicaContext",
    "SHARD_HINT",
    "SafetensorsDataset",
    "SequenceCut",
    "Skip",
    "SourceRow",
    "SparseFeature",
    "SparseTensorSpec",
    "Stats",
    "StepInfo",
    "StepMembers",
    "Strategy",
    "StringSpec",
    "TFRecordDataset",
    "TFRecordWriter",
    "TarDataset",
    "TensorSpec",
    "TextLineDataset",
    "TokenDataset",
    "UNKNOWN",
    "UnequalRowsError",
    "ValueContext",
    "VarLenFeature",
    "Verdict",
    "WorkersStats",
    "ZarrDataset",
    "ZipDataset",
    "__version__",
    "check_zero_rows",
    "compat",
    "distributed_mean",
    "example",
    "get_replica_context",
    "get_strategy",
    "preprocessing",
    "process_group_from_env",
    "random",
    "restore_order",
    "scaled_mean",
    "testing",
    "trace",
]
