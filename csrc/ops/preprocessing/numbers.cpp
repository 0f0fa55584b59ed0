// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ExpandUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <c10/util/Exception.h>

#include "ops/preprocessing/layer.h"
#include "ops/preprocessing/layer_input.h"
#include "torch_distinput/error.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr const char* kEncodingName = "CategoryEncoding";
constexpr const char* kDiscretizationName = "Discretization";
constexpr const char* kNormalizationName = "Normalization";
constexpr double kMinDeviation = 1e-7;

class EncodingLayer final : public NamedLayer {
 public:
  EncodingLayer(std::int64_t num_tokens, const OutputOptions& output, std::string description)
      : NamedLayer(kEncodingName, std::move(description)), vectors_{output, num_tokens, {}} {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    TORCH_CHECK_VALUE(inputs.size() == 1 || inputs.size() == 2, kind(),
                      ": the layer takes indices and perhaps weights, but got ", inputs.size(), " inputs.");
    const LayerInput input(inputs[0], row_offsets, kind());
    TORCH_CHECK_TYPE(!input.is_text(), kind(), ": the input must be integers, but is strings.");
    const at::Tensor indices = input.numbers(at::kLong);
    check_range(indices);
    return input.finish(indices, vectors_, weights_of(inputs, indices));
  }

 private:
  void check_range(const at::Tensor& indices) const {
    const auto* const data = indices.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < indices.numel(); ++i) {
      if (data[i] >= 0 && data[i] < vectors_.depth) continue;
      throw InvalidArgumentError(kind() + ": the input must be at least 0 and below `num_tokens`, which is " +
                                 std::to_string(vectors_.depth) + ", but holds " + std::to_string(data[i]) +
                                 ".");
    }
  }

  at::Tensor weights_of(std::span<const Leaf> inputs, const at::Tensor& indices) const {
    if (inputs.size() < 2) return {};
    TORCH_CHECK_VALUE(vectors_.output.mode == OutputMode::kCount,
                      "`count_weights` is not used when `output_mode` is not `'count'`.");
    const LayerInput weights(inputs[1], {}, kind());
    TORCH_CHECK_TYPE(!weights.is_text(), kind(), ": `count_weights` must be numbers, but are strings.");
    // As Keras: weights become the result's dtype before they are added.
    at::Tensor numbers = weights.numbers(vectors_.output.dtype).to(at::kFloat);
    if (numbers.sizes() != indices.sizes())
      throw InvalidArgumentError(kind() + ": `count_weights` must have the shape of the input, " +
                                 c10::str(indices.sizes()) + ", but has " + c10::str(numbers.sizes()) + ".");
    return numbers;
  }

  VectorOptions vectors_;
};

class DiscretizationLayer final : public NamedLayer {
 public:
  DiscretizationLayer(std::vector<float> boundaries, const OutputOptions& output, std::string description)
      : NamedLayer(kDiscretizationName, std::move(description)),
        boundaries_(std::move(boundaries)),
        vectors_{output, static_cast<std::int64_t>(boundaries_.size()) + 1, {}} {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const LayerInput input(only_input(inputs, kind()), row_offsets, kind());
    TORCH_CHECK_TYPE(!input.is_text(), kind(), ": the input must be numbers, but is strings.");
    const at::Tensor numbers = input.numbers(at::kFloat);
    at::Tensor bins = input.empty_indices();
    const auto* const data = numbers.const_data_ptr<float>();
    auto* const to = bins.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < numbers.numel(); ++i)
      to[i] = std::upper_bound(boundaries_.begin(), boundaries_.end(), data[i]) - boundaries_.begin();
    return input.finish(bins, vectors_);
  }

 private:
  std::vector<float> boundaries_;
  VectorOptions vectors_;
};

/// Runs on the input's device.
class NormalizationLayer final : public NamedLayer {
 public:
  NormalizationLayer(at::Tensor mean, const at::Tensor& variance, bool invert, std::string description)
      : NamedLayer(kNormalizationName, std::move(description)),
        mean_(std::move(mean)),
        deviation_(at::clamp_min(at::sqrt(variance), kMinDeviation)),
        invert_(invert) {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const Leaf& input = only_input(inputs, kind());
    if (const auto* const ragged = std::get_if<Ragged>(&input))
      return Ragged{normalized(ragged->values), ragged->offsets};
    const auto* const dense = std::get_if<at::Tensor>(&input);
    TORCH_CHECK_TYPE(dense != nullptr && !row_offsets.defined(), kind(),
                     ": the input must be numbers, but is a ", leaf_kind(input), " leaf.");
    return normalized(*dense);
  }

 private:
  at::Tensor normalized(const at::Tensor& input) const {
    if (!at::are_expandable(input.sizes(), mean_.sizes()))
      throw InvalidArgumentError(kind() + ": an input of shape " + c10::str(input.sizes()) +
                                 " does not fit means of shape " + c10::str(mean_.sizes()) + ".");
    const at::Tensor numbers = input.to(mean_.scalar_type());
    const at::Tensor mean = mean_.to(input.device());
    const at::Tensor deviation = deviation_.to(input.device());
    return invert_ ? at::add(mean, at::mul(numbers, deviation)) : at::div(at::sub(numbers, mean), deviation);
  }

  at::Tensor mean_;
  at::Tensor deviation_;
  bool invert_;
};

}  // namespace

LayerPtr category_encoding(std::int64_t num_tokens, OutputOptions output) {
  TORCH_CHECK_VALUE(num_tokens >= 1, kEncodingName, ": `num_tokens` must be at least 1, but is ", num_tokens,
                    ".");
  TORCH_CHECK_VALUE(output.mode != OutputMode::kInt && output.mode != OutputMode::kTfIdf, kEncodingName,
                    ": `output_mode` must be 'one_hot', 'multi_hot' or 'count'.");
  const std::string description = Description(kEncodingName).add("num_tokens", num_tokens).add(output).str();
  return std::make_shared<const EncodingLayer>(num_tokens, output, description);
}

LayerPtr discretization(std::vector<float> boundaries, OutputOptions output) {
  TORCH_CHECK_VALUE(std::is_sorted(boundaries.begin(), boundaries.end()), kDiscretizationName,
                    ": `bin_boundaries` must be sorted.");
  const auto count = static_cast<std::int64_t>(boundaries.size());
  at::Tensor values = at::empty({count}, at::kFloat);
  if (count > 0) std::memcpy(values.mutable_data_ptr(), boundaries.data(), values.nbytes());
  const std::string description =
      Description(kDiscretizationName).add_hash("bin_boundaries", values).add(output).str();
  return std::make_shared<const DiscretizationLayer>(std::move(boundaries), output, description);
}

LayerPtr normalization(at::Tensor mean, at::Tensor variance, bool invert) {
  Description description(kNormalizationName);
  description.add_hash("mean", mean).add_hash("variance", variance);
  if (invert) description.add("invert", "True");
  return std::make_shared<const NormalizationLayer>(std::move(mean), variance, invert, description.str());
}

}  // namespace torch_distinput::preprocessing
