// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/batching/buckets.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include <c10/util/Exception.h>

#include "core/locate_errors.h"
#include "kernels/rows.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

constexpr const char* kBucketsName = "bucket_by_length";

std::string list(const std::vector<std::int64_t>& values) {
  std::ostringstream out;
  const char* separator = "";
  out << '[';
  for (const std::int64_t value : values) out << std::exchange(separator, ", ") << value;
  out << ']';
  return out.str();
}

void check(const BucketOptions& options) {
  const auto& boundaries = options.bucket_boundaries;
  const auto& sizes = options.bucket_batch_sizes;
  TORCH_CHECK_VALUE(!boundaries.empty(), kBucketsName, ": `bucket_boundaries` must not be empty.");
  const bool increasing =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
  TORCH_CHECK_VALUE(increasing && boundaries.front() >= 1, kBucketsName,
                    ": `bucket_boundaries` must be increasing numbers of at least 1, but is ",
                    list(boundaries), ".");
  TORCH_CHECK_VALUE(sizes.size() == boundaries.size() + 1, kBucketsName,
                    ": `bucket_batch_sizes` must have one entry more than `bucket_boundaries`, ",
                    boundaries.size() + 1, ", but has ", sizes.size(), ".");
  TORCH_CHECK_VALUE(std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 1; }),
                    kBucketsName, ": `bucket_batch_sizes` must be at least 1, but is ", list(sizes), ".");
  TORCH_CHECK_VALUE(!options.no_padding || (!options.padded_shapes && !options.pad_to_bucket_boundary),
                    kBucketsName,
                    ": `no_padding=True` excludes `padded_shapes` and `pad_to_bucket_boundary`.");
}

/// The dims of a leaf as the spec knows them, else as many unknown dims as the element has; nullopt for kinds
/// that are not padded.
std::optional<Dims> static_shape(const Element& element, std::size_t leaf, const SpecPtr& spec) {
  if (spec != nullptr) {
    const auto* tensor = std::get_if<TensorSpec>(&spec->leaves[leaf]);
    if (tensor != nullptr && tensor->shape) return tensor->shape;
  }
  const ElementSpec one = spec_of(element);
  if (const auto* tensor = std::get_if<TensorSpec>(&one.leaves[leaf]))
    return Dims(tensor->shape->size(), kUnknownDim);
  if (const auto* strings = std::get_if<StringSpec>(&one.leaves[leaf]))
    return Dims(strings->shape->size(), kUnknownDim);
  return std::nullopt;
}

}  // namespace

Buckets::Buckets(FunctionPtr length, BucketOptions options)
    : length_(std::move(length)),
      options_(std::move(options)),
      padding_(options_.padded_shapes, options_.padding_values, kBucketsName) {
  TORCH_CHECK_VALUE(length_ != nullptr, kBucketsName, ": `length` must not be null.");
  check(options_);
}

std::string Buckets::call() const { return c10::str(kBucketsName, "(", length_->name(), ")"); }

std::string Buckets::describe() const {
  std::string text =
      c10::str(kBucketsName, "(", length_->name(), ", bucket_boundaries=", list(options_.bucket_boundaries),
               ", bucket_batch_sizes=", list(options_.bucket_batch_sizes), padding_.describe());
  if (options_.pad_to_bucket_boundary) text += ", pad_to_bucket_boundary=True";
  if (options_.drop_remainder) text += ", drop_remainder=True";
  if (options_.no_padding) text += ", no_padding=True";
  return text + ")";
}

std::size_t Buckets::of(Element element, std::int64_t number, std::uint64_t key) const {
  {
    const RowScope row(key, {&number, 1});
    const auto where = [&] { return c10::str(call(), ": element ", number); };
    locate_errors(*length_, where, [&] { length_->apply({&element, 1}); });
  }
  const at::Tensor* answer =
      element.structure() == Structure::leaf() ? std::get_if<at::Tensor>(&element.leaves().front()) : nullptr;
  TORCH_CHECK_TYPE(answer != nullptr && answer->dim() == 0 &&
                       c10::isIntegralType(answer->scalar_type(), /*includeBool=*/false),
                   call(), ": element ", number, ": the function must return one int scalar, but returned ",
                   to_string(spec_of(element)), ".");
  const auto size = answer->item<std::int64_t>();
  const auto& boundaries = options_.bucket_boundaries;
  TORCH_CHECK_VALUE(!options_.pad_to_bucket_boundary || size < boundaries.back(), call(), ": element ",
                    number, " has the length ", size,
                    ", but with `pad_to_bucket_boundary=True` lengths must be below ", "the last boundary, ",
                    boundaries.back(), ".");
  return static_cast<std::size_t>(std::upper_bound(boundaries.begin(), boundaries.end(), size) -
                                  boundaries.begin());
}

Element Buckets::batch(const std::vector<Element>& elements, std::size_t bucket, const SpecPtr& spec,
                       BufferPool& pool) const {
  if (options_.no_padding) return stack_rows(elements, pool, kBucketsName);
  std::vector<LeafPadding> rows = padding_.of(elements.front().structure());
  for (std::size_t leaf = 0; leaf < rows.size() && options_.pad_to_bucket_boundary; ++leaf) {
    const std::int64_t longest = options_.bucket_boundaries[bucket] - 1;
    if (!rows[leaf].shape) rows[leaf].shape = static_shape(elements.front(), leaf, spec);
    if (!rows[leaf].shape) continue;
    for (std::int64_t& dim : *rows[leaf].shape) dim = dim == kUnknownDim ? longest : dim;
  }
  return pad_rows(elements, rows, pool, kBucketsName);
}

}  // namespace torch_distinput
