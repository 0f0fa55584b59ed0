// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/wire.h"

/// \file
/// tf.train.Example and SequenceExample in protobuf's wire format
/// (`tensorflow/core/example/{example,feature}.proto`). Inputs may hold any bytes. All functions are safe
/// from any thread.

namespace torch_distinput {

/// Which list a tf.train.Feature holds; kNone also for one that is missing.
enum class ListKind { kNone, kBytes, kFloat, kInt64 };

/// The list of one feature: the bytes of its BytesList, FloatList or Int64List message.
struct WireList {
  ListKind kind = ListKind::kNone;
  std::string_view body = {};
};

/// Reads the list of the tf.train.Feature `message`. Returns false for malformed bytes.
bool read_feature(std::string_view message, WireList& list) noexcept;

/// Finds features by key. Immutable, so safe from any thread.
class FeatureFinder {
 public:
  /// `keys` are distinct.
  explicit FeatureFinder(std::vector<std::string> keys);

  std::size_t size() const noexcept { return keys_.size(); }

  /// Sets `found[i]` to the list of the feature with key i in the tf.train.Example `example`, kNone where it
  /// is missing. Of features with the same key the last one counts, as in TensorFlow. Returns false for
  /// malformed bytes. REQUIRES: `found` has `size()` entries.
  bool find(std::string_view example, std::span<WireList> found) const;
  /// The same for a tf.train.Features message.
  bool find_features(std::string_view features, std::span<WireList> found) const;
  /// Splits a tf.train.SequenceExample: `context` becomes its features as by `find`, and `lists[i]` the bytes
  /// of the FeatureList with key i of `sequences`; nullopt where it is missing. Returns false for malformed
  /// bytes.
  static bool find_sequences(const FeatureFinder& contexts, const FeatureFinder& sequences,
                             std::string_view example, std::span<WireList> context,
                             std::span<std::optional<std::string_view>> lists);

 private:
  /// The place of `key`; `size()` if it is not asked for. `guess` is looked at first.
  std::size_t place(std::string_view key, std::size_t guess) const;
  template <class Set>
  bool for_entries(std::string_view map, Set set) const;

  std::vector<std::string> keys_;
  std::unordered_map<std::string_view, std::size_t> places_;
};

/// Writes the first `most` values of a FloatList or Int64List to `to` and returns how many the list has; -1
/// for malformed bytes. Values may be packed or not.
std::int64_t read_values(std::string_view list, float* to, std::int64_t most) noexcept;
std::int64_t read_values(std::string_view list, std::int64_t* to, std::int64_t most) noexcept;

/// Calls `use(string)` for each string of a BytesList, and returns how many there are; -1 for malformed
/// bytes.
template <class Use>
std::int64_t for_strings(std::string_view list, Use use) {
  std::int64_t count = 0;
  WireReader reader(list);
  while (!reader.done()) {
    std::uint64_t field;
    WireType type;
    if (!reader.head(field, type)) return -1;
    std::string_view value;
    if (field == 1 && type == WireType::kBytes) {
      if (!reader.bytes(value)) return -1;
      use(value);
      ++count;
    } else if (!reader.skip(type)) {
      return -1;
    }
  }
  return count;
}

}  // namespace torch_distinput
