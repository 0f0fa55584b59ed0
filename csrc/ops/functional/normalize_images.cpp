// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "execution/last_normalization.h"
#include "execution/unary_node.h"
#include "execution/yields_batches.h"
#include "kernels/dense.h"
#include "kernels/images.h"
#include "ops/functional/normalized_plan.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kNormalizeImagesName = "normalize_images";
constexpr std::size_t kImageDims = 3;

/// The dim of the channels in images of `dims`; nullopt if only the data can tell.
std::optional<ChannelDim> known_channels(const Dims& dims, const std::string& leaf, std::int64_t channels) {
  if (dims.back() == kUnknownDim || dims[dims.size() - kImageDims] == kUnknownDim) return std::nullopt;
  return find_channels(dims, channels, leaf);
}

/// The dims of `leaf` if it holds images with a known number of dims; else null.
const Dims* image_dims(const LeafSpec& leaf, const ImageNormalization& normalization) {
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  if (dense == nullptr || !dense->shape) return nullptr;
  return normalization.applies_to(dense->dtype, dense->shape->size()) ? &*dense->shape : nullptr;
}

LeafSpec unpacked_spec(const LeafSpec& leaf, const std::string& name,
                       const ImageNormalization& normalization) {
  const Dims* const dims = image_dims(leaf, normalization);
  if (dims == nullptr) return leaf;
  const ImageScaling& scaling = normalization.scaling;
  TensorSpec spec{*dims, scaling.dtype};
  if (const auto channels = known_channels(*dims, name, scaling.channels()))
    spec.shape = unpacked_dims(*dims, *channels, scaling.layout);
  else
    std::fill(spec.shape->end() - kImageDims, spec.shape->end(), kUnknownDim);
  return spec;
}

FunctionPtr unpacking(const ImageNormalization& normalization, std::shared_ptr<BufferPool> pool) {
  return make_function(
      [normalization, pool = std::move(pool)](Element element) {
        const ImageScaling& scaling = normalization.scaling;
        for (std::size_t i = 0; i < element.leaves().size(); ++i) {
          auto* const dense = std::get_if<at::Tensor>(&element.leaves()[i]);
          if (dense == nullptr ||
              !normalization.applies_to(dense->scalar_type(), static_cast<std::size_t>(dense->dim())))
            continue;
          const ChannelDim from =
              find_channels(dense->sizes(), scaling.channels(), leaf_name(*element.structure(), i));
          *dense = unpack_images(dense->contiguous(), from, scaling, {}, *pool);
        }
        return element;
      },
      kNormalizeImagesName);
}

FunctionPtr passing_on() {
  return make_function([](Element element) { return element; });
}

std::string list_of(const std::vector<double>& values) {
  std::ostringstream text;
  for (std::size_t i = 0; i < values.size(); ++i) text << (i == 0 ? "[" : ", ") << values[i];
  return text.str() + "]";
}

/// Turns each uint8 leaf with at least three dims in a row into (byte / 255 - mean) / std for each channel,
/// and moves the channels to the layout asked for; other leaves stay. Rows, batch size and random access are
/// those of its input; the state is that of a row-wise `map`. A device may do the work after the copy.
class NormalizeImagesNode final : public UnaryNode {
 public:
  NormalizeImagesNode(NodePtr input, std::vector<double> mean, std::vector<double> std, ImageOptions options)
      : UnaryNode(std::move(input)),
        mean_(std::move(mean)),
        std_(std::move(std)),
        options_(options),
        normalization_{{{}, {}, options.dtype, options.layout}, yields_batches(this->input())} {
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      normalization_.scaling.scale.push_back(static_cast<float>(1.0 / (255.0 * std_[i])));
      normalization_.scaling.shift.push_back(static_cast<float>(-mean_[i] / std_[i]));
    }
    check_input();
  }

  std::string_view name() const override { return kNormalizeImagesName; }
  std::string describe() const override {
    std::ostringstream text;
    text << kNormalizeImagesName << "(mean=" << list_of(mean_) << ", std=" << list_of(std_)
         << ", dtype=" << dtype_name(options_.dtype)
         << ", layout=" << (options_.layout == ImageLayout::kNchw ? "NCHW" : "NHWC") << ")";
    return text.str();
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return normalize_images(std::move(inputs.at(0)), mean_, std_, options_);
  }

  SpecPtr spec() const override {
    const SpecPtr before = input().spec();
    if (before == nullptr) return nullptr;
    ElementSpec spec = *before;
    for (std::size_t i = 0; i < spec.leaves.size(); ++i)
      spec.leaves[i] = unpacked_spec(spec.leaves[i], leaf_name(*spec.structure, i), normalization_);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  Traits traits() const override {
    return {.sharding = {.pass_through = true},
            .rows = {.fallible = true, .row_wise = true, .follows = Follows::kEach}};
  }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    if (is_left_to_devices(context)) return input().plan(context.input(0));
    if (!normalization_.batched) {
      const PlanPtr rows = input().plan(context.input(0));
      if (rows != nullptr && rows->layout() != nullptr)
        return normalized_plan(rows, normalization_, context.execution->pool);
    }
    return mapped(context)->plan(context);
  }
  IteratorPtr iterate(const IterContext& context) const override { return mapped(context)->iterate(context); }

  LastNormalizationPtr last_normalization() const override {
    if (!suits_devices()) return nullptr;
    return std::make_shared<const LastNormalization>(LastNormalization{this, normalization_, input().spec()});
  }

 private:
  /// Returns whether a device can do the work: for images whose channels are known from the spec, so that no
  /// row can fail there.
  bool suits_devices() const {
    const SpecPtr before = input().spec();
    if (before == nullptr) return false;
    for (std::size_t i = 0; i < before->leaves.size(); ++i) {
      const auto* const dense = std::get_if<TensorSpec>(&before->leaves[i]);
      if (dense != nullptr && !dense->shape) return false;
      const Dims* const dims = image_dims(before->leaves[i], normalization_);
      if (dims != nullptr && !known_channels(*dims, "", normalization_.scaling.channels())) return false;
    }
    return true;
  }

  bool is_left_to_devices(const IterContext& context) const {
    const auto& left = context.execution->left_to_devices;
    return std::find(left.begin(), left.end(), this) != left.end();
  }

  /// Returns the op as a row-wise `map`. If a device does the work, the map passes elements on, so that
  /// states are the same in both cases.
  NodePtr mapped(const IterContext& context) const {
    const bool elsewhere = is_left_to_devices(context);
    MapOptions options;
    if (const SpecPtr known = elsewhere ? input().spec() : spec()) options.element_spec = *known;
    options.row_wise = normalization_.batched;
    return map(input_ptr(), elsewhere ? passing_on() : unpacking(normalization_, context.execution->pool),
               std::move(options));
  }

  void check_input() const {
    const SpecPtr before = input().spec();
    if (before == nullptr) return;
    const SpecPtr after = spec();
    for (std::size_t i = 0; i < before->leaves.size(); ++i) {
      const auto* const dense = std::get_if<TensorSpec>(&before->leaves[i]);
      const bool open = dense != nullptr && !dense->shape;
      if (open || !(before->leaves[i] == after->leaves[i])) return;
    }
    C10_THROW_ERROR(ValueError, std::string(kNormalizeImagesName) +
                                    ": no leaf is uint8 with at least 3 dims a row: " + to_string(*before) +
                                    ".");
  }

  std::vector<double> mean_;
  std::vector<double> std_;
  ImageOptions options_;
  ImageNormalization normalization_;
};

void check_numbers(const char* parameter, const std::vector<double>& values) {
  TORCH_CHECK_VALUE(!values.empty(), kNormalizeImagesName, ": `", parameter,
                    "` must have an entry for each channel, but is empty.");
  for (const double value : values)
    TORCH_CHECK_VALUE(std::isfinite(value), kNormalizeImagesName, ": `", parameter,
                      "` must be finite numbers, but one is ", value, ".");
}

}  // namespace

NodePtr normalize_images(NodePtr input, std::vector<double> mean, std::vector<double> std,
                         ImageOptions options) {
  check_numbers("mean", mean);
  check_numbers("std", std);
  TORCH_CHECK_VALUE(mean.size() == std.size(), kNormalizeImagesName,
                    ": `mean` and `std` must have as many entries, but have ", mean.size(), " and ",
                    std.size(), ".");
  for (const double value : std)
    TORCH_CHECK_VALUE(value > 0, kNormalizeImagesName, ": `std` must be positive, but one entry is ", value,
                      ".");
  TORCH_CHECK_VALUE(
      options.dtype == at::kFloat || options.dtype == at::kHalf || options.dtype == at::kBFloat16,
      kNormalizeImagesName, ": `dtype` must be float32, float16 or bfloat16, but is ",
      dtype_name(options.dtype), ".");
  return std::make_shared<NormalizeImagesNode>(std::move(input), std::move(mean), std::move(std), options);
}

}  // namespace torch_distinput::ops
