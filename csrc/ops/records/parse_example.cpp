// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <c10/util/Exception.h>

#include "ops/ops.h"
#include "ops/records/feature_rows.h"
#include "ops/records/leaf_parser.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kParseExampleName = "parse_example";

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;

std::string feature_text(const Feature& feature) {
  return std::visit(Match{[](const FixedLenFeature& fixed) {
                            return "FixedLenFeature(" + dims_string(fixed.shape) + ", " +
                                   type_name(fixed.type) + (fixed.default_value ? ", default_value)" : ")");
                          },
                          [](const VarLenFeature& list) {
                            return std::string("VarLenFeature(") + type_name(list.type) + ")";
                          },
                          [](const RaggedFeature& list) {
                            return std::string("RaggedFeature(") + type_name(list.type) + ")";
                          },
                          [](const SparseFeature& sparse) {
                            std::string keys;
                            for (const std::string& key : sparse.index_keys) keys += "'" + key + "', ";
                            return "SparseFeature(" + keys + "'" + sparse.value_key + "', " +
                                   type_name(sparse.type) + ", " + dims_string(sparse.sizes) +
                                   (sparse.already_sorted ? ", already_sorted)" : ")");
                          }},
                    feature);
}

Dims after(const Dims& batch, const Dims& shape) {
  Dims dims = batch;
  dims.insert(dims.end(), shape.begin(), shape.end());
  return dims;
}

/// The spec of what a feature becomes in records of shape `batch`.
struct FeatureSpec {
  const std::optional<Dims>& batch;

  std::optional<Dims> shape(const Dims& dims) const {
    return batch ? std::optional<Dims>(after(*batch, dims)) : std::nullopt;
  }
  LeafSpec values(FeatureType type, const Dims& dims) const {
    if (!is_strings(type)) return TensorSpec{shape(dims), dtype_of(type), {}};
    return StringSpec{shape(dims),
                      type == FeatureType::kText ? std::optional<std::string>("utf-8") : std::nullopt};
  }
  LeafSpec operator()(const FixedLenFeature& fixed) const { return values(fixed.type, fixed.shape); }
  LeafSpec operator()(const VarLenFeature& list) const {
    return SparseTensorSpec{shape({kUnknownDim}), dtype_of(list.type)};
  }
  LeafSpec operator()(const RaggedFeature& list) const {
    if (!batch || batch->empty()) return values(list.type, {kUnknownDim});
    return RaggedTensorSpec{shape({kUnknownDim}), dtype_of(list.type), 1, {}};
  }
  LeafSpec operator()(const SparseFeature& sparse) const {
    return SparseTensorSpec{shape(sparse.sizes), dtype_of(sparse.type)};
  }
};

bool holds_strings_of_any_number(const Feature& feature) {
  const auto* const ragged = std::get_if<RaggedFeature>(&feature);
  return ragged != nullptr && is_strings(ragged->type);
}

/// tf.train.Example messages as a dict of features, by the rules of tf.io.parse_example.
class ParseExample final : public LeafParser {
 public:
  ParseExample(std::string op, Features features) : op_(std::move(op)), features_(std::move(features)) {
    std::vector<StructurePtr> leaves;
    std::vector<std::string> names;
    for (const auto& [key, feature] : features_) {
      names.push_back(key);
      leaves.push_back(Structure::leaf());
      columns_.emplace_back();
      std::visit(Match{[&](const SparseFeature& sparse) {
                         columns_.back().push_back(column(sparse.value_key));
                         for (const std::string& index : sparse.index_keys)
                           columns_.back().push_back(column(index));
                       },
                       [&](const auto&) { columns_.back().push_back(column(key)); }},
                 feature);
    }
    structure_ = Structure::dict(std::move(names), std::move(leaves));
    finder_ = std::make_unique<const FeatureFinder>(keys_);
  }

  std::string describe() const override {
    std::string text = op_ + "({";
    for (const auto& [key, feature] : features_)
      text += (text.back() == '{' ? "'" : ", '") + key + "': " + feature_text(feature);
    return text + "}";
  }

  ElementSpec spec(const std::optional<Dims>& shape) const override {
    ElementSpec spec{structure_, {}};
    for (const auto& [key, feature] : features_) {
      if (shape) check_dims(shape->size(), key, feature);
      spec.leaves.push_back(std::visit(FeatureSpec{shape}, feature));
    }
    return spec;
  }

  Element parse(Bytes records, BufferPool& pool, const RecordName& name) const override {
    FoundFeatures found{op_, {}, keys_.size(), records.shape, records.count(), &name};
    found.lists.resize(static_cast<std::size_t>(found.records) * keys_.size());
    for (std::int64_t record = 0; record < found.records; ++record) {
      const auto lists =
          std::span(found.lists).subspan(static_cast<std::size_t>(record) * keys_.size(), keys_.size());
      if (finder_->find(records[record], lists)) continue;
      throw InvalidArgumentError(op_ + ": " + name(record) + " is not a tf.train.Example: its " +
                                 std::to_string(records[record].size()) + " bytes are malformed.");
    }
    std::vector<Leaf> leaves;
    leaves.reserve(features_.size());
    for (std::size_t i = 0; i < features_.size(); ++i) leaves.push_back(read(found, i, pool));
    return {structure_, std::move(leaves)};
  }

  bool stacks() const override {
    return std::all_of(features_.begin(), features_.end(), [](const auto& entry) {
      return std::holds_alternative<FixedLenFeature>(entry.second) ||
             std::holds_alternative<SparseFeature>(entry.second);
    });
  }
  /// The shape of a COO tensor depends on the longest row.
  bool row_wise() const override {
    return std::none_of(features_.begin(), features_.end(), [](const auto& entry) {
      return std::holds_alternative<VarLenFeature>(entry.second);
    });
  }

 private:
  /// The place of `key` among the keys that are looked for.
  std::size_t column(const std::string& key) {
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    if (found != keys_.end()) return static_cast<std::size_t>(found - keys_.begin());
    keys_.push_back(key);
    return keys_.size() - 1;
  }

  void check_dims(std::size_t dims, const std::string& key, const Feature& feature) const {
    if (std::holds_alternative<FixedLenFeature>(feature)) return;
    TORCH_CHECK_VALUE(dims <= 1, op_, ": feature '", key, "' is a ", feature_text(feature),
                      ", which needs single records or batches of one dim, but the records have ", dims,
                      " dims.");
    TORCH_CHECK_VALUE(dims == 0 || !holds_strings_of_any_number(feature), op_, ": feature '", key,
                      "' has any number of strings, which a batch cannot hold; parse single records and call "
                      "padded_batch after it.");
  }

  Leaf read(const FoundFeatures& found, std::size_t number, BufferPool& pool) const {
    const auto& [key, feature] = features_[number];
    check_dims(found.batch.size(), key, feature);
    const std::vector<std::size_t>& places = columns_[number];
    const auto column_of = [&](std::size_t part, FeatureType type) {
      return FeatureColumn{found, places[part], keys_[places[part]], type};
    };
    return std::visit(
        Match{[&](const FixedLenFeature& fixed) { return read_fixed(column_of(0, fixed.type), fixed, pool); },
              [&](const VarLenFeature& list) { return read_sparse_lists(column_of(0, list.type), pool); },
              [&](const RaggedFeature& list) { return read_ragged(column_of(0, list.type), pool); },
              [&](const SparseFeature& sparse) {
                std::vector<FeatureColumn> indices;
                for (std::size_t i = 1; i < places.size(); ++i)
                  indices.push_back(column_of(i, FeatureType::kInt64));
                return read_sparse(column_of(0, sparse.type), indices, sparse, pool);
              }},
        feature);
  }

  std::string op_;
  Features features_;
  std::vector<std::string> keys_;
  std::vector<std::vector<std::size_t>> columns_;  ///< for each feature, the places of its keys in `keys_`
  StructurePtr structure_;
  std::unique_ptr<const FeatureFinder> finder_;
};

void check_numbers_only(const std::string& op, const std::string& key, FeatureType type, const char* kind) {
  TORCH_CHECK_VALUE(!is_strings(type), op, ": feature '", key, "' is a ", kind, " of ", type_name(type),
                    ", but torch has no sparse tensors of strings; use a RaggedFeature.");
}

void check_default(const std::string& op, const std::string& key, const FixedLenFeature& fixed) {
  if (!fixed.default_value) return;
  std::int64_t items = 1;
  for (const std::int64_t dim : fixed.shape) items *= dim;
  const auto* const dense = std::get_if<at::Tensor>(&*fixed.default_value);
  const auto* const strings = std::get_if<Bytes>(&*fixed.default_value);
  const bool fits = is_strings(fixed.type)
                        ? strings != nullptr
                        : dense != nullptr && dense->scalar_type() == dtype_of(fixed.type) &&
                              dense->device().is_cpu() && dense->is_contiguous();
  TORCH_CHECK_TYPE(fits, op, ": the `default_value` of feature '", key, "' must be ", type_name(fixed.type),
                   ".");
  const std::int64_t given = strings != nullptr ? strings->count() : dense->numel();
  TORCH_CHECK_VALUE(given == items, op, ": the `default_value` of feature '", key, "' must have ", items,
                    " values (shape=", dims_string(fixed.shape), "), but has ", given, ".");
}

void check_sizes(const std::string& op, const std::string& key, const char* parameter, const Dims& dims) {
  for (const std::int64_t dim : dims) {
    TORCH_CHECK_VALUE(dim >= 0 && dim < std::int64_t{1} << 40, op, ": `", parameter, "` of feature '", key,
                      "' must be sizes of at least 0, but is ", dims_string(dims), ".");
  }
}

void check_feature(const std::string& op, const std::string& key, const Feature& feature) {
  std::visit(
      Match{[&](const FixedLenFeature& fixed) {
              check_sizes(op, key, "shape", fixed.shape);
              check_default(op, key, fixed);
            },
            [&](const VarLenFeature& list) { check_numbers_only(op, key, list.type, "VarLenFeature"); },
            [](const RaggedFeature&) {},
            [&](const SparseFeature& sparse) {
              check_numbers_only(op, key, sparse.type, "SparseFeature");
              check_sizes(op, key, "size", sparse.sizes);
              TORCH_CHECK_VALUE(
                  !sparse.sizes.empty() && sparse.index_keys.size() == sparse.sizes.size(), op, ": feature '",
                  key, "' must have as many entries in `index_key` as in `size`, at least one, but has ",
                  sparse.index_keys.size(), " and ", sparse.sizes.size(), ".");
            }},
      feature);
}

}  // namespace
}  // namespace torch_distinput::ops

namespace torch_distinput {

std::shared_ptr<const LeafParser> example_parser(const std::string& op, Features features) {
  for (const auto& [key, feature] : features) ops::check_feature(op, key, feature);
  return std::make_shared<const ops::ParseExample>(op, std::move(features));
}

}  // namespace torch_distinput

namespace torch_distinput::ops {

NodePtr parse_example(NodePtr input, Features features, std::optional<LeafKey> key) {
  TORCH_CHECK_VALUE(!features.empty(), kParseExampleName, ": `features` must hold at least one feature.");
  return parse_leaf(std::move(input), kParseExampleName,
                    example_parser(kParseExampleName, std::move(features)), std::move(key));
}

}  // namespace torch_distinput::ops
