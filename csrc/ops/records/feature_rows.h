// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/example_wire.h"
#include "ops/records/leaf_parser.h"
#include "torch_distinput/records.h"

namespace torch_distinput {

/// The lists of all requested keys in a batch of records, and what names them in messages.
struct FoundFeatures {
  std::string op;               ///< the op to name in messages
  std::vector<WireList> lists;  ///< record by record: `keys` lists each
  std::size_t keys = 0;         ///< lists of one record
  Dims batch;                   ///< dims of the batch; empty for a single record
  std::int64_t records = 0;     ///< their product
  const RecordName* name = nullptr;

  const WireList& list(std::int64_t record, std::size_t key) const {
    return lists[static_cast<std::size_t>(record) * keys + key];
  }
};

/// One key of a record whose list must be of one type.
struct FeatureColumn {
  const FoundFeatures& found;
  std::size_t place;  ///< of the key in a record's lists
  const std::string& key;
  FeatureType type;

  /// Returns the list of `record`, of the right type or kNone. Throws InvalidArgumentError for another type.
  const WireList& list(std::int64_t record) const;
  /// Returns the number of values in a record's list. Throws InvalidArgumentError for malformed bytes.
  std::int64_t count(std::int64_t record) const;
  /// Writes up to `most` values of a record's list to `to` and returns how many it has. Throws
  /// InvalidArgumentError for malformed bytes.
  template <class Number>
  std::int64_t read(std::int64_t record, Number* to, std::int64_t most) const {
    return checked(record, read_values(list(record).body, to, most));
  }
  /// Calls `use(string)` for each string of a record's list. Throws InvalidArgumentError for malformed bytes,
  /// and for text that is not UTF-8.
  template <class Use>
  std::int64_t strings(std::int64_t record, Use use) const {
    return checked(record, for_strings(list(record).body, [&](std::string_view text) {
                     if (type == FeatureType::kText) check_text(record, text);
                     use(text);
                   }));
  }
  /// Throws InvalidArgumentError: `problem` of this feature in `record`, such as ` must have ...`.
  [[noreturn]] void refuse(std::int64_t record, const std::string& problem) const;

 private:
  std::int64_t checked(std::int64_t record, std::int64_t count) const;
  void check_text(std::int64_t record, std::string_view text) const;
};

/// Returns the parser of tf.train.Example messages for the op `op`. Throws c10::ValueError or c10::TypeError
/// for features that cannot be read.
std::shared_ptr<const LeafParser> example_parser(const std::string& op, Features features);

/// The dtype of a feature of numbers; Byte for strings.
c10::ScalarType dtype_of(FeatureType type);
/// `float32`, `int64`, `bytes` or `str`.
const char* type_name(FeatureType type);
/// Whether values of this type are strings.
inline bool is_strings(FeatureType type) { return type == FeatureType::kBytes || type == FeatureType::kText; }

/// Make the leaf of one feature for all records, in memory of `pool`. Throw InvalidArgumentError naming op,
/// feature and record for values that break a rule of the feature.
Leaf read_fixed(const FeatureColumn& column, const FixedLenFeature& feature, BufferPool& pool);
Leaf read_sparse_lists(const FeatureColumn& column, BufferPool& pool);
Leaf read_ragged(const FeatureColumn& column, BufferPool& pool);
/// `indices` are the columns of `feature.index_keys`.
Leaf read_sparse(const FeatureColumn& values, const std::vector<FeatureColumn>& indices,
                 const SparseFeature& feature, BufferPool& pool);

}  // namespace torch_distinput
