// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/leaf_run.h"
#include "torch_distinput/element.h"

/// \file
/// Operations on the rows of one leaf, for each kind of leaf; the functions of rows.h apply them to all
/// leaves. Copies go into memory of `pool`. All functions are safe from any thread.

namespace torch_distinput {

class BufferPool;

/// Stacks the leaves of `run` as the rows of a new leaf (`run.stacking`), or concatenates their rows. Throws
/// c10::ValueError naming the leaf if dtypes or shapes differ (FailedPreconditionError if the shapes of rows
/// to concatenate differ).
at::Tensor join(const LeafRun<at::Tensor>& run, BufferPool& pool);
Bytes join(const LeafRun<Bytes>& run, BufferPool& pool);
/// As above. Throws c10::ValueError when stacking, because the result would have two ragged dims.
Ragged join(const LeafRun<Ragged>& run, BufferPool& pool);
Sparse join(const LeafRun<Sparse>& run, BufferPool& pool);
Opaque join(const LeafRun<Opaque>& run, BufferPool& pool);

/// As `join` for leaves of any kind. Throws c10::ValueError if they are not all of one kind, and
/// c10::TypeError for dataset leaves.
Leaf join_leaf(const LeafPlace& place, BufferPool& pool);

/// Stacks dense leaves that may differ in dim 0 as the rows of a ragged leaf. Throws c10::ValueError for
/// scalars and if dtypes or other dims differ.
Ragged join_ragged(const LeafRun<at::Tensor>& run, BufferPool& pool);

/// Returns rows [begin, end) of `leaf`, sharing its memory (sparse leaves are copied). REQUIRES: 0 <= `begin`
/// <= `end` <= the rows of `leaf`, which is not a scalar.
at::Tensor slice(const at::Tensor& leaf, std::int64_t begin, std::int64_t end);
Bytes slice(const Bytes& leaf, std::int64_t begin, std::int64_t end);
Ragged slice(const Ragged& leaf, std::int64_t begin, std::int64_t end);
Sparse slice(const Sparse& leaf, std::int64_t begin, std::int64_t end);
Opaque slice(const Opaque& leaf, std::int64_t begin, std::int64_t end);

/// Returns row `row` without dim 0; otherwise as `slice`. A row of a ragged leaf is dense.
at::Tensor row_of(const at::Tensor& leaf, std::int64_t row);
Bytes row_of(const Bytes& leaf, std::int64_t row);
at::Tensor row_of(const Ragged& leaf, std::int64_t row);
Sparse row_of(const Sparse& leaf, std::int64_t row);
Opaque row_of(const Opaque& leaf, std::int64_t row);

/// Returns the rows of `leaf`, which is not a single string, at the places `rows`, in that order, in memory
/// of `pool`.
Bytes gather(const Bytes& leaf, std::span<const std::int64_t> rows, BufferPool& pool);

/// Returns a copy of the leaf in memory of `pool`. Opaque objects are shared, and so are tensors on devices
/// or of layouts other than strided.
at::Tensor copy(const at::Tensor& leaf, BufferPool& pool);
Bytes copy(const Bytes& leaf, BufferPool& pool);
Ragged copy(const Ragged& leaf, BufferPool& pool);
Sparse copy(const Sparse& leaf, BufferPool& pool);
Opaque copy(const Opaque& leaf, BufferPool& pool);

}  // namespace torch_distinput
