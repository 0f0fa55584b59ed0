// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

/// \file
/// Arguments of the ops that parse records: `Dataset::decode_raw`, `parse_example`, `parse_tensor` and
/// `to_number`.

namespace torch_distinput {

/// Names a leaf of an element: a key of a dict, a field of a named tuple, or an index of a tuple or list.
using LeafKey = std::variant<std::int64_t, std::string>;

/// The values of a feature of a tf.train.Example: float32, int64, strings that are bytes, or UTF-8 text.
enum class FeatureType { kFloat, kInt64, kBytes, kText };

/// A feature with the same number of values in each record: a dense leaf [shape...], or strings.
struct FixedLenFeature {
  Dims shape = {};  ///< sizes of at least 0
  FeatureType type = FeatureType::kFloat;
  /// The values of records without the feature, as many as `shape` has: a tensor or strings. Unset: each
  /// record must have the feature.
  std::optional<Leaf> default_value = {};
};
/// Any number of float32 or int64 values: a COO tensor [values], [records, most values] for a batch. No
/// values where the feature is missing.
struct VarLenFeature {
  FeatureType type = FeatureType::kFloat;
};
/// Any number of values: a leaf [values], ragged [records, (values)] for a batch of numbers. No values where
/// the feature is missing.
struct RaggedFeature {
  FeatureType type = FeatureType::kFloat;
};
/// Float32 or int64 values at the places that other features hold: a COO tensor [sizes...].
struct SparseFeature {
  std::vector<std::string> index_keys;  ///< int64 features, one for each dim
  std::string value_key;                ///< the feature of the values
  FeatureType type = FeatureType::kFloat;
  Dims sizes;                   ///< one for each dim; indices are in [0, size)
  bool already_sorted = false;  ///< the records hold the values in the order of their places
};
/// How one feature is read.
using Feature = std::variant<FixedLenFeature, VarLenFeature, RaggedFeature, SparseFeature>;
/// A list of features of a tf.train.SequenceExample, each with as many values as `shape` has: a dense leaf
/// [steps, shape...], or strings.
struct FixedLenSequenceFeature {
  Dims shape = {};  ///< sizes of at least 0
  FeatureType type = FeatureType::kFloat;
  bool allow_missing = false;  ///< a record without the list has no steps; else that is an error
};
/// How one list of features is read: as FixedLenSequenceFeature says; as a COO tensor [steps, most values];
/// or as rows of varying length (numbers only).
using SequenceFeature = std::variant<FixedLenSequenceFeature, VarLenFeature, RaggedFeature>;
/// Lists of features by key, in the order of the dict that they become.
using SequenceFeatures = std::vector<std::pair<std::string, SequenceFeature>>;
/// Features by key, in the order of the dict that they become.
using Features = std::vector<std::pair<std::string, Feature>>;

}  // namespace torch_distinput
