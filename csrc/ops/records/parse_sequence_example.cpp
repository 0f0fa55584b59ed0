// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "ops/ops.h"
#include "ops/records/feature_rows.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kSequenceName = "parse_sequence_example";

FeatureType type_of_values(const SequenceFeature& feature) {
  return std::visit([](const auto& kind) { return kind.type; }, feature);
}

LeafSpec spec_of_sequence(const SequenceFeature& feature) {
  const FeatureType type = type_of_values(feature);
  if (std::holds_alternative<VarLenFeature>(feature))
    return SparseTensorSpec{Dims{kUnknownDim, kUnknownDim}, dtype_of(type)};
  if (std::holds_alternative<RaggedFeature>(feature))
    return RaggedTensorSpec{Dims{kUnknownDim, kUnknownDim}, dtype_of(type), 1, {}};
  Dims shape{kUnknownDim};
  const Dims& inner = std::get<FixedLenSequenceFeature>(feature).shape;
  shape.insert(shape.end(), inner.begin(), inner.end());
  if (!is_strings(type)) return TensorSpec{std::move(shape), dtype_of(type), {}};
  return StringSpec{std::move(shape),
                    type == FeatureType::kText ? std::optional<std::string>("utf-8") : std::nullopt};
}

/// tf.train.SequenceExample messages as a pair of dicts, by the rules of tf.io.parse_single_sequence_example.
class ParseSequenceExample final : public LeafParser {
 public:
  ParseSequenceExample(Features context, SequenceFeatures sequences)
      : context_(example_parser(kSequenceName, std::move(context))),
        sequences_(std::move(sequences)),
        finder_(keys_of(sequences_)) {
    structure_ =
        Structure::dict(keys_of(sequences_), std::vector<StructurePtr>(sequences_.size(), Structure::leaf()));
  }

  std::string describe() const override {
    std::string text = context_->describe();
    text += ", {";
    for (const auto& [key, feature] : sequences_)
      text += (text.back() == '{' ? "'" : ", '") + key + "': " + to_string(spec_of_sequence(feature));
    return text + "}";
  }

  ElementSpec spec(const std::optional<Dims>& shape) const override {
    check_single(shape.value_or(Dims{}));
    ElementSpec spec = context_->spec(shape);
    spec.structure = Structure::tuple({spec.structure, structure_});
    for (const auto& [key, feature] : sequences_) spec.leaves.push_back(spec_of_sequence(feature));
    return spec;
  }

  Element parse(Bytes records, BufferPool& pool, const RecordName& name) const override {
    check_single(records.shape);
    std::vector<std::optional<std::string_view>> lists(finder_.size());
    const FeatureFinder none({});
    if (!FeatureFinder::find_sequences(none, finder_, records[0], {}, lists)) refuse_message(records, name);
    std::vector<Leaf> leaves;
    for (std::size_t i = 0; i < sequences_.size(); ++i)
      leaves.push_back(read(records, i, lists[i], pool, name));
    // The context has the field of an Example's features.
    Element element = context_->parse(std::move(records), pool, name);
    StructurePtr structure = Structure::tuple({element.structure(), structure_});
    std::vector<Leaf> all = std::move(element.leaves());
    all.insert(all.end(), std::make_move_iterator(leaves.begin()), std::make_move_iterator(leaves.end()));
    return {std::move(structure), std::move(all)};
  }
  bool stacks() const override { return false; }

 private:
  static std::vector<std::string> keys_of(const SequenceFeatures& sequences) {
    std::vector<std::string> keys;
    for (const auto& [key, feature] : sequences) keys.push_back(key);
    return keys;
  }
  static void check_single(const Dims& batch) {
    TORCH_CHECK_VALUE(
        batch.empty(), kSequenceName,
        ": sequences of a batch have different lengths; parse single records, then call padded_batch "
        "or ragged_batch.");
  }
  [[noreturn]] static void refuse_message(const Bytes& records, const RecordName& name) {
    throw InvalidArgumentError(std::string(kSequenceName) + ": " + name(0) +
                               " is not a tf.train.SequenceExample: its " +
                               std::to_string(records[0].size()) + " bytes are malformed.");
  }

  Leaf read(const Bytes& records, std::size_t number, const std::optional<std::string_view>& list,
            BufferPool& pool, const RecordName& name) const {
    const auto& [key, feature] = sequences_[number];
    const RecordName step_name = [&](std::int64_t step) {
      return name(0) + ", step " + std::to_string(step);
    };
    FoundFeatures found{kSequenceName, {}, 1, {}, 0, &step_name};
    const std::int64_t steps = for_strings(list.value_or(""), [&](std::string_view message) {
      WireList values;
      if (!read_feature(message, values)) refuse_message(records, name);
      found.lists.push_back(values);
    });
    if (steps < 0) refuse_message(records, name);
    found.records = steps;
    found.batch = {steps};
    const auto* const fixed = std::get_if<FixedLenSequenceFeature>(&feature);
    if (!list && fixed != nullptr && !fixed->allow_missing) {
      throw InvalidArgumentError(std::string(kSequenceName) + ": " + name(0) + ": the list of features '" +
                                 key + "' is required, but is missing; `allow_missing` permits that.");
    }
    const FeatureColumn column{found, 0, key, type_of_values(feature)};
    if (fixed != nullptr) return read_fixed(column, FixedLenFeature{fixed->shape, fixed->type, {}}, pool);
    return std::holds_alternative<VarLenFeature>(feature) ? read_sparse_lists(column, pool)
                                                          : read_ragged(column, pool);
  }

  std::shared_ptr<const LeafParser> context_;
  SequenceFeatures sequences_;
  FeatureFinder finder_;
  StructurePtr structure_;
};

void check_sequence(const std::string& key, const SequenceFeature& feature) {
  if (const auto* const fixed = std::get_if<FixedLenSequenceFeature>(&feature)) {
    for (const std::int64_t dim : fixed->shape)
      TORCH_CHECK_VALUE(dim >= 0 && dim < std::int64_t{1} << 40, kSequenceName, ": `shape` of feature '", key,
                        "' must be sizes of at least 0, but is ", dims_string(fixed->shape), ".");
    return;
  }
  TORCH_CHECK_VALUE(!is_strings(type_of_values(feature)), kSequenceName, ": feature '", key,
                    "' has any number of strings in each step, for which there is no kind of leaf; use a "
                    "FixedLenSequenceFeature.");
}

}  // namespace

NodePtr parse_sequence_example(NodePtr input, Features context, SequenceFeatures sequences,
                               std::optional<LeafKey> key) {
  for (const auto& [name, feature] : sequences) check_sequence(name, feature);
  return parse_leaf(std::move(input), kSequenceName,
                    std::make_shared<const ParseSequenceExample>(std::move(context), std::move(sequences)),
                    std::move(key));
}

}  // namespace torch_distinput::ops
