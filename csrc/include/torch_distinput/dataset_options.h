// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// Arguments of the ops, named as in Python. Defaults are the ops' defaults.
struct BatchOptions {
  bool drop_remainder = false;
};
struct ShuffleOptions {
  std::optional<std::int64_t> buffer_size = {};  ///< rows; unset: a full shuffle
  std::optional<std::int64_t> seed = {};
  bool reshuffle_each_iteration = true;
};
struct ListFilesOptions {
  bool shuffle = true;  ///< in another order in each epoch
  std::optional<std::int64_t> seed = {};
};
struct MapOptions {
  std::optional<std::int64_t> num_parallel_calls = {};
  bool deterministic = true;
  std::optional<ElementSpec> element_spec = {};
  bool row_wise = false;  ///< rows of a batch are independent of each other
};
struct InterleaveOptions {
  /// Inner datasets that take turns; unset: `kDefaultCycleLength`.
  std::optional<std::int64_t> cycle_length = {};
  std::int64_t block_length = 1;  ///< elements of one inner dataset in a row
  /// Threads that open and read inner datasets ahead; -1: one a CPU; unset: none.
  std::optional<std::int64_t> num_parallel_calls = {};
  bool deterministic = true;  ///< false: whoever is ready first goes first
};
/// A fixed number, so that the order is the same on every machine.
inline constexpr std::int64_t kDefaultCycleLength = 4;

/// What rows are padded to, a shape for each leaf; `kUnknownDim`: the longest of
/// the batch; nullopt: that in every dim. A null structure fits any element with
/// so many leaves.
struct PaddedShapes {
  StructurePtr structure;
  std::vector<std::optional<Dims>> leaves;
};
struct PaddedBatchOptions {
  std::optional<PaddedShapes> padded_shapes = {};  ///< unset: the longest of the batch
  /// Scalars in the structure of the elements, or one for all leaves; unset: 0.
  std::optional<Element> padding_values = {};
  bool drop_remainder = false;
};
struct BucketOptions {
  /// Increasing lengths: bucket i takes lengths in [boundary i - 1, boundary i).
  std::vector<std::int64_t> bucket_boundaries;
  /// Rows of a batch of each bucket: one more than boundaries.
  std::vector<std::int64_t> bucket_batch_sizes;
  std::optional<PaddedShapes> padded_shapes = {};
  std::optional<Element> padding_values = {};
  /// Unknown dims are padded to the bucket's boundary - 1 instead of the longest row.
  bool pad_to_bucket_boundary = false;
  bool drop_remainder = false;
  bool no_padding = false;  ///< rows of a bucket have one shape already
};
struct SampleOptions {
  /// One share a dataset, at least 0, not all 0; empty: equal shares.
  std::vector<double> weights = {};
  std::optional<std::int64_t> seed = {};
};

/// The order of the dims of an image: channels before height and width, or behind.
enum class ImageLayout { kNchw, kNhwc };
struct ImageOptions {
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< or Half or BFloat16
  ImageLayout layout = ImageLayout::kNchw;
};

}  // namespace torch_distinput
