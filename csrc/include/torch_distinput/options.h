// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How the elements are assigned over ranks (names and values as in tf.data, which has no kStreams).
enum class AutoShardPolicy {
  kOff = -1,  ///< every rank reads everything
  kAuto = 0,  ///< kFile where the pipeline reads files, and enough of them; else kData
  kFile = 1,  ///< each rank reads files of its own
  kData = 2,  ///< all ranks read one stream, and each takes its parts of each batch
  kHint = 3,  ///< each rank reads its shard, cut where `shard(kShardHint, 0)` stands
  /// A pipeline without random access is cut into streams, whose number does not depend on that of the ranks;
  /// each is read by one rank. Where that is not possible, kData.
  kStreams = 4
};

/// `shard(kShardHint, 0)` marks the place where policy HINT shards.
inline constexpr std::int64_t kShardHint = -1;

/// Skip rows that fail instead of throwing. The limits hold for each op that can fail; unset: no limit.
struct Skip {
  std::optional<std::int64_t> max_count = {};  ///< rows that may be skipped in one epoch, at least 0
  /// The largest allowed skipped / seen, in [0, 1]. Checked from 100 rows seen on, and at the end of the data
  /// however few there are. (Ops in the datasets that the functions of `flat_map` and `interleave` make: only
  /// from 100 rows on.)
  std::optional<double> max_fraction = {};
  bool operator==(const Skip&) const = default;
};

/// Options of a pipeline. A field that is not set takes its default when an iterator is opened. Later
/// `with_options` win field by field. A value.
struct TDI_API Options {
  std::optional<AutoShardPolicy> auto_shard_policy = {};  ///< default kAuto
  std::optional<bool> deterministic = {};        ///< false: parallel results may overtake; default true
  std::optional<std::int64_t> num_threads = {};  ///< 0: none; default: the CPUs this process may use
  std::optional<std::int64_t> prefetch = {};     ///< elements read ahead; default: chosen by size and time
  /// Bytes read ahead, at least 1, whatever `prefetch` says. Default 64 MiB, or where elements are larger,
  /// as many as `prefetch` says or one for each thread.
  std::optional<std::int64_t> prefetch_bytes = {};
  std::optional<Skip> skip = {};          ///< default: throw on the first row that fails
  std::optional<std::int64_t> seed = {};  ///< for ops without a seed of their own; default: drawn once

  /// These options with every field that `later` sets replaced.
  Options merged(const Options& later) const;
  /// Throws c10::ValueError for values out of range.
  void validate() const;
  /// `Options(seed=7)`: the fields that are set.
  std::string str() const;
  bool operator==(const Options&) const = default;
};

}  // namespace torch_distinput
