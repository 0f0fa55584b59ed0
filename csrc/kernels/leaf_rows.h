// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/leaf_run.h"
#include "torch_distinput/element.h"

/// \file
/// Rows of one leaf, for each kind of leaf; the functions of rows.h go through the leaves with them. Copies
/// go into pooled memory.

namespace torch_distinput {

class BufferPool;

/// The leaves side by side as rows of one leaf (`run.stacking`), or their rows one after the other. Throws
/// c10::ValueError naming the leaf where types or shapes differ (FailedPreconditionError for shapes of rows
/// to join).
at::Tensor join(const LeafRun<at::Tensor>& run, BufferPool& pool);
Bytes join(const LeafRun<Bytes>& run, BufferPool& pool);
/// Throws c10::ValueError when stacking: the rows would have two ragged dims.
Ragged join(const LeafRun<Ragged>& run, BufferPool& pool);
Sparse join(const LeafRun<Sparse>& run, BufferPool& pool);
Opaque join(const LeafRun<Opaque>& run, BufferPool& pool);

/// The leaves of `place`, whatever their kind, which must be one. Throws c10::TypeError for datasets.
Leaf join_leaf(const LeafPlace& place, BufferPool& pool);

/// Dense rows of different lengths as rows of a ragged leaf.
Ragged join_ragged(const LeafRun<at::Tensor>& run, BufferPool& pool);

/// Rows [begin, end), sharing memory except for a sparse leaf. REQUIRES: a leaf with rows, that many.
at::Tensor slice(const at::Tensor& leaf, std::int64_t begin, std::int64_t end);
Bytes slice(const Bytes& leaf, std::int64_t begin, std::int64_t end);
Ragged slice(const Ragged& leaf, std::int64_t begin, std::int64_t end);
Sparse slice(const Sparse& leaf, std::int64_t begin, std::int64_t end);
Opaque slice(const Opaque& leaf, std::int64_t begin, std::int64_t end);

/// Row `row` without dim 0, otherwise as `slice`. A row of a ragged leaf is dense.
at::Tensor row_of(const at::Tensor& leaf, std::int64_t row);
Bytes row_of(const Bytes& leaf, std::int64_t row);
at::Tensor row_of(const Ragged& leaf, std::int64_t row);
Sparse row_of(const Sparse& leaf, std::int64_t row);
Opaque row_of(const Opaque& leaf, std::int64_t row);

/// The leaf in memory of its own. Objects are shared.
at::Tensor copy(const at::Tensor& leaf, BufferPool& pool);
Bytes copy(const Bytes& leaf, BufferPool& pool);
Ragged copy(const Ragged& leaf, BufferPool& pool);
Sparse copy(const Sparse& leaf, BufferPool& pool);
Opaque copy(const Opaque& leaf, BufferPool& pool);

}  // namespace torch_distinput
