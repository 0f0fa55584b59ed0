// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "torch_distinput/api.h"

namespace torch_distinput {

/// How the elements are assigned over workers (values as in tf.data).
enum class AutoShardPolicy { kOff = -1, kAuto = 0, kFile = 1, kData = 2, kHint = 3 };

/// `shard(kShardHint, 0)` marks the place where policy HINT shards.
inline constexpr std::int64_t kShardHint = -1;

/// Skip rows that fail instead of raising. Unset limits are unlimited.
struct Skip {
  std::optional<std::int64_t> max_count = {};  ///< most rows skipped in one epoch
  /// Most skipped / seen: checked from 100 seen on, and once more at the end of the data, however few they
  /// are. (Ops in the datasets that the functions of `flat_map` and `interleave` make: only from 100 seen
  /// on.)
  std::optional<double> max_fraction = {};
  bool operator==(const Skip&) const = default;
};

/// Options of a pipeline; a field that is not set takes its default when a
/// iterator is opened. Later `with_options` win field by field.
struct TDI_API Options {
  std::optional<AutoShardPolicy> auto_shard_policy = {};  ///< default kAuto
  std::optional<bool> deterministic = {};                 ///< default true
  std::optional<std::int64_t> num_threads = {};           ///< default: the CPUs this process may use
  std::optional<std::int64_t> prefetch = {};              ///< batches read ahead; default: chosen by size
  std::optional<std::int64_t> prefetch_bytes = {};        ///< bytes read ahead; default 64 MiB
  std::optional<Skip> skip = {};                          ///< default: raise on the first bad row
  std::optional<std::int64_t> seed = {};                  ///< default: drawn once

  /// These options with every field that `later` sets replaced.
  Options merged(const Options& later) const;
  /// Throws c10::ValueError for values out of range.
  void validate() const;
  /// `Options(seed=7)`: the fields that are set.
  std::string str() const;
  bool operator==(const Options&) const = default;
};

}  // namespace torch_distinput
