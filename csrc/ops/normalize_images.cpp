// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include "core/engine.h"
#include "kernels/dense.h"
#include "kernels/images.h"
#include "ops/ops.h"
#include "ops/unary_node.h"
#include "ops/yields_batches.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kName = "normalize_images";
constexpr std::size_t kImageDims = 3;

std::string describe_dims(at::IntArrayRef sizes) { return dims_string(Dims(sizes.begin(), sizes.end())); }

/// Whether a leaf of this dtype and rank is images. `batched`: dim 0 counts rows.
bool is_image(c10::ScalarType dtype, std::size_t rank, bool batched) {
  return dtype == at::kByte && rank >= kImageDims + (batched ? 1 : 0);
}

/// Throws c10::ValueError where no dim of `sizes` can be the channels.
ChannelDim find_channels(at::IntArrayRef sizes, std::int64_t channels, const std::string& leaf) {
  if (sizes.back() == channels) return ChannelDim::kLast;
  TORCH_CHECK_VALUE(sizes[sizes.size() - kImageDims] == channels, kName, ": `mean` and `std` have ", channels,
                    " entries, one for each channel, but ", leaf, " of shape ", describe_dims(sizes),
                    " has neither as its last nor as its third last dim ", channels, ".");
  return ChannelDim::kThirdLast;
}

/// Images of `sizes` once they are normalized.
Dims unpacked_dims(Dims dims, ChannelDim from, const ImageScaling& scaling) {
  const auto last = dims.end() - kImageDims;
  const bool to_last = scaling.layout == ImageLayout::kNhwc;
  if (from == ChannelDim::kLast && !to_last) std::rotate(last, last + 2, dims.end());
  if (from == ChannelDim::kThirdLast && to_last) std::rotate(last, last + 1, dims.end());
  return dims;
}

LeafSpec unpacked_spec(const LeafSpec& leaf, const std::string& name, const ImageScaling& scaling,
                       bool batched) {
  const auto* const dense = std::get_if<TensorSpec>(&leaf);
  if (dense == nullptr || !dense->shape || !is_image(dense->dtype, dense->shape->size(), batched))
    return leaf;
  const Dims& dims = *dense->shape;
  TensorSpec spec{dims, scaling.dtype};
  if (dims.back() == kUnknownDim || dims[dims.size() - kImageDims] == kUnknownDim) {
    std::fill(spec.shape->end() - kImageDims, spec.shape->end(), kUnknownDim);
  } else {
    spec.shape = unpacked_dims(dims, find_channels(dims, scaling.channels(), name), scaling);
  }
  return spec;
}

FunctionPtr unpacking(const ImageScaling& scaling, bool batched, std::shared_ptr<BufferPool> pool) {
  return make_function([scaling, batched, pool = std::move(pool)](Element element) {
    for (std::size_t i = 0; i < element.leaves().size(); ++i) {
      auto* const dense = std::get_if<at::Tensor>(&element.leaves()[i]);
      if (dense == nullptr ||
          !is_image(dense->scalar_type(), static_cast<std::size_t>(dense->dim()), batched))
        continue;
      const ChannelDim from =
          find_channels(dense->sizes(), scaling.channels(), leaf_name(*element.structure(), i));
      *dense = unpack_images(dense->contiguous(), from, scaling, {}, *pool);
    }
    return element;
  });
}

std::string list_of(const std::vector<double>& values) {
  std::ostringstream text;
  for (std::size_t i = 0; i < values.size(); ++i) text << (i == 0 ? "[" : ", ") << values[i];
  return text.str() + "]";
}

class NormalizeImagesNode final : public UnaryNode {
 public:
  NormalizeImagesNode(NodePtr input, std::vector<double> mean, std::vector<double> std, ImageOptions options)
      : UnaryNode(std::move(input)),
        mean_(std::move(mean)),
        std_(std::move(std)),
        options_(options),
        batched_(yields_batches(this->input())),
        scaling_{{}, {}, options.dtype, options.layout} {
    for (std::size_t i = 0; i < mean_.size(); ++i) {
      scaling_.scale.push_back(static_cast<float>(1.0 / (255.0 * std_[i])));
      scaling_.shift.push_back(static_cast<float>(-mean_[i] / std_[i]));
    }
    check_input();
  }

  std::string_view name() const override { return kName; }
  std::string describe() const override {
    std::ostringstream text;
    text << kName << "(mean=" << list_of(mean_) << ", std=" << list_of(std_)
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
      spec.leaves[i] = unpacked_spec(spec.leaves[i], leaf_name(*spec.structure, i), scaling_, batched_);
    return std::make_shared<const ElementSpec>(std::move(spec));
  }
  Traits traits() const override { return {.pass_through = true, .fallible = true, .row_wise = true}; }

  PlanPtr plan(const IterContext& context) const override { return mapped(context)->plan(context); }
  IteratorPtr iterate(const IterContext& context) const override { return mapped(context)->iterate(context); }

 private:
  /// The same as a `map` over whole batches, whose rows are independent.
  NodePtr mapped(const IterContext& context) const {
    MapOptions options;
    if (const SpecPtr known = spec()) options.element_spec = *known;
    options.row_wise = batched_;
    return map(input_ptr(), unpacking(scaling_, batched_, context.engine->pool), std::move(options));
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
    C10_THROW_ERROR(ValueError, std::string(kName) + ": no leaf is uint8 with at least 3 dims a row: " +
                                    to_string(*before) + ".");
  }

  std::vector<double> mean_;
  std::vector<double> std_;
  ImageOptions options_;
  bool batched_;
  ImageScaling scaling_;
};

void check_numbers(const char* parameter, const std::vector<double>& values) {
  TORCH_CHECK_VALUE(!values.empty(), kName, ": `", parameter,
                    "` must have an entry for each channel, but is empty.");
  for (const double value : values)
    TORCH_CHECK_VALUE(std::isfinite(value), kName, ": `", parameter, "` must be finite numbers, but one is ",
                      value, ".");
}

}  // namespace

NodePtr normalize_images(NodePtr input, std::vector<double> mean, std::vector<double> std,
                         ImageOptions options) {
  check_numbers("mean", mean);
  check_numbers("std", std);
  TORCH_CHECK_VALUE(mean.size() == std.size(), kName,
                    ": `mean` and `std` must have as many entries, but have ", mean.size(), " and ",
                    std.size(), ".");
  for (const double value : std)
    TORCH_CHECK_VALUE(value > 0, kName, ": `std` must be positive, but one entry is ", value, ".");
  TORCH_CHECK_VALUE(
      options.dtype == at::kFloat || options.dtype == at::kHalf || options.dtype == at::kBFloat16, kName,
      ": `dtype` must be float32, float16 or bfloat16, but is ", dtype_name(options.dtype), ".");
  return std::make_shared<NormalizeImagesNode>(std::move(input), std::move(mean), std::move(std), options);
}

}  // namespace torch_distinput::ops
