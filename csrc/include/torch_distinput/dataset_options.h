// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/ScalarType.h>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

// Arguments of the ops, named as in Python. Defaults are the ops' defaults. The ops throw c10::ValueError for
// values out of range.

/// Of `batch`, `ragged_batch` and `rebatch`.
struct BatchOptions {
  bool drop_remainder = false;  ///< leave out a short last batch
};
/// Of `batch` with a schedule: from batch number `step` on, batches have `size` rows.
struct BatchSizeFrom {
  std::int64_t step = 0;
  std::int64_t size = 0;
};
/// Of `shuffle`.
struct ShuffleOptions {
  /// How far an element may move, in elements, at least 1; unset: a full shuffle.
  std::optional<std::int64_t> buffer_size = {};
  std::optional<std::int64_t> seed = {};  ///< unset: the base seed decides (`Options::seed`)
  bool reshuffle_each_iteration = true;   ///< another order in each epoch and in each round of `repeat`
  /// Blocks in a window, at least 1: a shuffle of blocks, without `buffer_size`.
  std::optional<std::int64_t> blocks = {};
};
/// Of `sample`.
struct DrawOptions {
  bool replacement = true;                ///< whether an element may be drawn more than once
  std::optional<std::int64_t> seed = {};  ///< unset: the base seed decides (`Options::seed`)
};
/// Of `cache`.
struct CacheOptions {
  /// Whether the ranks of this job on this host, and the processes that they fork, keep one copy together.
  bool shared = false;
};
/// Of `list_files`.
struct ListFilesOptions {
  bool shuffle = true;                    ///< another order in each epoch
  std::optional<std::int64_t> seed = {};  ///< unset: the base seed decides (`Options::seed`)
};
/// Of `map`.
struct MapOptions {
  /// Calls at a time, each on a thread of its own, at least 1; -1: one for each CPU; unset: no threads of its
  /// own.
  std::optional<std::int64_t> num_parallel_calls = {};
  bool deterministic = true;                     ///< false: parallel results may overtake each other
  std::optional<ElementSpec> element_spec = {};  ///< of the results; unset: the first result's type
  /// Promises that rows of a batch are independent of each other, so that each replica may run the function
  /// on its own rows only. The function must then return as many rows as it gets.
  bool row_wise = false;
  /// Elements that the function gets at once where so many are read: for a function that is faster with many.
  /// At least 1. The results do not depend on it. `num_parallel_calls` counts blocks, on the random-access
  /// path only.
  std::int64_t block = 1;
};
/// Of `interleave`.
struct InterleaveOptions {
  /// Inner datasets that take turns; unset: `kDefaultCycleLength`.
  std::optional<std::int64_t> cycle_length = {};
  std::int64_t block_length = 1;  ///< elements of one inner dataset in a row
  /// Threads that open and read inner datasets ahead; -1: one a CPU; unset: none.
  std::optional<std::int64_t> num_parallel_calls = {};
  bool deterministic = true;  ///< false: a dataset that is ready may overtake one that is not
};
/// Inner datasets that take turns by default: a fixed number, so that the order is the same on every machine.
inline constexpr std::int64_t kDefaultCycleLength = 4;

/// The shapes that rows are padded to.
struct PaddedShapes {
  StructurePtr structure;  ///< that of the elements; null fits any element with as many leaves
  /// A shape for each leaf. A dim that is `kUnknownDim` becomes as long as the longest row of the batch;
  /// nullopt means that for every dim.
  std::vector<std::optional<Dims>> leaves;
};
/// Of `padded_batch`.
struct PaddedBatchOptions {
  std::optional<PaddedShapes> padded_shapes = {};  ///< unset: the longest of the batch
  /// Scalars in the structure of the elements, or one for all leaves; unset: 0.
  std::optional<Element> padding_values = {};
  bool drop_remainder = false;  ///< leave out a short last batch
};
/// Of `bucket_by_length`.
struct BucketOptions {
  /// Increasing lengths of at least 1: bucket i takes lengths in [boundary i - 1, boundary i).
  std::vector<std::int64_t> bucket_boundaries;
  /// Rows of a batch of each bucket, at least 1: one entry more than boundaries.
  std::vector<std::int64_t> bucket_batch_sizes;
  std::optional<PaddedShapes> padded_shapes = {};  ///< as in `PaddedBatchOptions`
  std::optional<Element> padding_values = {};      ///< as in `PaddedBatchOptions`
  /// Unknown dims are padded to the bucket's boundary - 1 instead of the longest row; lengths must then be
  /// below the last boundary.
  bool pad_to_bucket_boundary = false;
  bool drop_remainder = false;  ///< leave out the buckets that are not full at the end
  bool no_padding = false;      ///< rows of a bucket have one shape already
};
/// Of `batch_by_cost`.
struct CostBatchOptions {
  /// Rows among which batches are made, at least 1: rows of similar cost are sought in wider windows, and
  /// held in memory where the input is read in order.
  std::int64_t window = 8192;
  std::optional<PaddedShapes> padded_shapes = {};  ///< as in `PaddedBatchOptions`
  std::optional<Element> padding_values = {};      ///< as in `PaddedBatchOptions`
};
/// How `pack` chooses the documents of a row.
enum class PackStrategy {
  kGreedy,   ///< one document after the other, cut where a row is full
  kBestFit,  ///< whole documents, each where it leaves the least room; cut only if longer than a row
};
/// Of `pack`.
struct PackOptions {
  std::optional<std::string> key = {};  ///< the entry with the tokens, where elements are dicts
  PackStrategy strategy = PackStrategy::kGreedy;
  std::int64_t window = 1024;  ///< documents among which `kBestFit` chooses, at least 1
  std::int64_t pad_id = 0;     ///< the token in the places that stay empty
  /// Documents of a row at most, at least 1; unset: as many as it has tokens.
  std::optional<std::int64_t> max_documents = {};
  /// Entries of dicts that travel with their documents: dense, with at least one dim, alike but for dim 0.
  /// Needs `kBestFit`, and documents that fit in a row, because one that is cut would have to cut them, too.
  std::vector<std::string> keys = {};
  /// What the places of each document in a row are a multiple of, at least 1, as context parallelism needs
  /// it: it is padded at its end. The length of a row must be a multiple of it.
  std::int64_t pad_to_multiple_of = 1;
};
/// Of `with_lengths`.
struct LengthOptions {
  /// The file with the lengths; unset: beside the first file that the dataset reads, or in the cache folder.
  std::optional<std::string> path = {};
  std::optional<std::string> key = {};  ///< the entry whose lengths are stored, where elements are dicts
};
/// When a mixture ends.
enum class StopOn {
  kAll,    ///< when all datasets have ended: the others go on by their weights when one has
  kFirst,  ///< before a dataset would be drawn that has ended
};
/// What weights of a mixture are shares of.
enum class SharesOf {
  kElements,
  kTokens,  ///< rows along dim 0 of a leaf, whose lengths must be known without reading (`with_lengths`)
};
/// Of `sample_from_datasets`: from step number `step` on, datasets have these weights.
struct WeightsFrom {
  std::int64_t step = 0;
  std::vector<double> weights = {};
};
/// Of `sample_from_datasets`.
struct SampleOptions {
  /// One share for each dataset, finite, at least 0, not all 0; empty: equal shares. Each dataset has its
  /// share of any first n elements within a few elements, until one ends.
  std::vector<double> weights = {};
  /// Weights that change, instead of `weights`: the first from step 0 on, steps increase. Each dataset goes
  /// on after its last element. A dataset without weight waits; where all others have ended, the next weights
  /// hold before their step.
  std::vector<WeightsFrom> schedule = {};
  /// Elements of a step of `schedule`; unset: a step is a batch of the first op after it that makes batches,
  /// and without one an element.
  std::optional<std::int64_t> elements_per_step = {};
  /// With kTokens, elements are drawn by weight over the mean length of a dataset's elements: shares of
  /// tokens are right in the mean, and off by as much as lengths vary.
  SharesOf by = SharesOf::kElements;
  std::optional<std::string> key = {};    ///< the entry with the tokens, where elements have several leaves
  std::optional<std::int64_t> seed = {};  ///< unset: the base seed decides (`Options::seed`)
  StopOn stop_on = StopOn::kAll;
};

/// The order of the dims of an image: channels before height and width, or after them.
enum class ImageLayout { kNchw, kNhwc };
/// Of `normalize_images`: the images that it returns.
struct ImageOptions {
  c10::ScalarType dtype = c10::ScalarType::Float;  ///< Float, Half or BFloat16
  ImageLayout layout = ImageLayout::kNchw;
};

}  // namespace torch_distinput
