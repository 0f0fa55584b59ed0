# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Layers that turn raw features into numbers, with the names, arguments and rules of Keras' preprocessing layers.

Each layer is a `torch.nn.Module`: call it on a batch inside the step, or give it to `Dataset.map`, where it runs
natively. `adapt` learns what a layer needs from a dataset, over one process or several; `state_dict` saves it with the
model. docs/preprocessing.md tells where results differ from Keras.
"""

from torch_distinput.preprocessing._adapt import Adaptation
from torch_distinput.preprocessing._discretization import Discretization
from torch_distinput.preprocessing._encoding import CategoryEncoding
from torch_distinput.preprocessing._hashing import HashedCrossing, Hashing
from torch_distinput.preprocessing._lookup import IntegerLookup, StringLookup
from torch_distinput.preprocessing._normalization import Normalization
from torch_distinput.preprocessing._text import TextVectorization

__all__ = [
    "Adaptation",
    "CategoryEncoding",
    "Discretization",
    "HashedCrossing",
    "Hashing",
    "IntegerLookup",
    "Normalization",
    "StringLookup",
    "TextVectorization",
]
