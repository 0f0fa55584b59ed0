// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "ops/preprocessing/layer.h"
#include "ops/preprocessing/layer_input.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr const char* kHashingName = "Hashing";
constexpr const char* kCrossingName = "HashedCrossing";
/// The key of `tf.sparse.cross_hashed`.
constexpr std::uint64_t kCrossKey = 0xDECAFCAFFEU;

/// As x86 converts doubles: NaN and numbers out of range become the smallest integer.
std::int64_t cut(double value) {
  constexpr double kLimit = 9223372036854775808.0;
  if (!(value >= -kLimit && value < kLimit)) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

class HashingLayer final : public NamedLayer {
 public:
  HashingLayer(const HashingOptions& options, std::string description)
      : NamedLayer(kHashingName, std::move(description)),
        mask_(options.mask_value),
        first_(mask_ && options.num_bins > 1 ? 1 : 0),
        hasher_(options.salt, options.num_bins - first_),
        vectors_{options.output, options.num_bins, {}} {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    const LayerInput input(only_input(inputs, kind()), row_offsets, kind());
    at::Tensor bins = input.empty_indices();
    auto* const to = bins.mutable_data_ptr<std::int64_t>();
    if (input.is_text()) {
      hash_text(input.text(), to);
    } else if (c10::isFloatingType(input.number_type())) {
      hash_floats(input, to);
    } else {
      hash_integers(input, to);
    }
    return input.finish(bins, vectors_);
  }

 private:
  void hash_text(const Bytes& text, std::int64_t* to) const {
    const std::string* mask = nullptr;
    if (mask_ && first_ == 1) {
      mask = std::get_if<std::string>(&*mask_);
      TORCH_CHECK_TYPE(mask != nullptr, kind(), ": `mask_value` must be a string, as the input is.");
    }
    const std::int64_t count = text.count();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string_view string = text[i];
      to[i] = mask != nullptr && string == *mask ? 0 : first_ + hasher_.bin(string);
    }
  }

  void hash_integers(const LayerInput& input, std::int64_t* to) const {
    const at::Tensor numbers = input.numbers(at::kLong);
    const auto* const data = numbers.const_data_ptr<std::int64_t>();
    const double* const mask = number_mask();
    const bool flags = input.number_type() == at::kBool;  // TensorFlow's text of a bool is a word
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
      if (mask != nullptr && static_cast<double>(data[i]) == *mask) {
        to[i] = 0;
      } else {
        to[i] = first_ + (flags ? hasher_.bin(std::string_view(data[i] != 0 ? "true" : "false"))
                                : hasher_.bin(data[i]));
      }
    }
  }

  void hash_floats(const LayerInput& input, std::int64_t* to) const {
    const at::Tensor numbers = input.numbers(at::kDouble);
    const auto* const data = numbers.const_data_ptr<double>();
    const double* const mask = number_mask();
    for (std::int64_t i = 0; i < numbers.numel(); ++i)
      to[i] = mask != nullptr && data[i] == *mask ? 0 : first_ + hasher_.bin(cut(data[i]));
  }

  const double* number_mask() const {
    if (!mask_ || first_ == 0) return nullptr;
    const auto* const mask = std::get_if<double>(&*mask_);
    TORCH_CHECK_TYPE(mask != nullptr, kind(), ": `mask_value` must be a number, as the input is.");
    return mask;
  }

  std::optional<std::variant<double, std::string>> mask_;
  std::int64_t first_;  ///< the bin after the one for the mask
  Hasher hasher_;
  VectorOptions vectors_;
};

class CrossingLayer final : public NamedLayer {
 public:
  CrossingLayer(const HashingOptions& options, std::string description)
      : NamedLayer(kCrossingName, std::move(description)), vectors_{options.output, options.num_bins, {}} {}

  Leaf call(std::span<const Leaf> inputs, const at::Tensor& row_offsets) const override {
    TORCH_CHECK_VALUE(inputs.size() >= 2,
                      "`HashedCrossing` should be called on at least two inputs, but got ", inputs.size(),
                      ".");
    check_shape(!row_offsets.defined());
    std::vector<std::uint64_t> hashes;
    std::vector<std::int64_t> sizes;
    for (const Leaf& leaf : inputs) {
      check_shape(!std::holds_alternative<Ragged>(leaf) && !std::holds_alternative<Sparse>(leaf));
      const LayerInput input(leaf, {}, kind());
      const std::vector<std::int64_t> here = sizes_of(input);
      if (&leaf == inputs.data()) {
        sizes = here;
        check_shape(sizes.size() < 2 || (sizes.size() == 2 && sizes[1] == 1));
        hashes.assign(static_cast<std::size_t>(input.count()), kCrossKey);
      }
      TORCH_CHECK_VALUE(here == sizes, "All `HashedCrossing` inputs should have equal shape.");
      add(input, hashes);
    }
    const LayerInput first(inputs.front(), {}, kind());
    at::Tensor bins = first.empty_indices();
    for (std::size_t i = 0; i < hashes.size(); ++i)
      bins.mutable_data_ptr<std::int64_t>()[i] =
          static_cast<std::int64_t>(hashes[i] % static_cast<std::uint64_t>(vectors_.depth));
    return first.finish(bins, vectors_);
  }

 private:
  static void check_shape(bool fits) {
    TORCH_CHECK_VALUE(fits,
                      "All `HashedCrossing` inputs should have shape `()`, `(batch_size)` or "
                      "`(batch_size, 1)`, and be dense.");
  }

  static std::vector<std::int64_t> sizes_of(const LayerInput& input) {
    return input.is_text() ? input.text().shape : input.empty_indices().sizes().vec();
  }

  static void add(const LayerInput& input, std::vector<std::uint64_t>& hashes) {
    if (input.is_text()) {
      for (std::size_t i = 0; i < hashes.size(); ++i)
        hashes[i] = fingerprint_cat64(hashes[i], fingerprint64(input.text()[static_cast<std::int64_t>(i)]));
      return;
    }
    const c10::ScalarType type = input.number_type();
    TORCH_CHECK_VALUE(c10::isIntegralType(type, /*includeBool=*/false),
                      "All `HashedCrossing` inputs should have an integer or string dtype.");
    const at::Tensor numbers = input.numbers(at::kLong);
    for (std::size_t i = 0; i < hashes.size(); ++i)
      hashes[i] =
          fingerprint_cat64(hashes[i], static_cast<std::uint64_t>(numbers.const_data_ptr<std::int64_t>()[i]));
  }

  VectorOptions vectors_;
};

void check_bins(const char* layer, const HashingOptions& options) {
  TORCH_CHECK_VALUE(options.num_bins >= 1, layer, ": `num_bins` must be at least 1, but is ",
                    options.num_bins, ".");
}

}  // namespace

LayerPtr hashing(HashingOptions options) {
  check_bins(kHashingName, options);
  Description description(kHashingName);
  description.add("num_bins", options.num_bins);
  if (options.mask_value) {
    if (const auto* const text = std::get_if<std::string>(&*options.mask_value)) {
      description.add("mask_value", "'" + *text + "'");
    } else {
      description.add("mask_value", std::get<double>(*options.mask_value));
    }
  }
  if (options.salt)
    description.add("salt", std::to_string((*options.salt)[0]) + "/" + std::to_string((*options.salt)[1]));
  description.add(options.output);
  return std::make_shared<const HashingLayer>(options, description.str());
}

LayerPtr hashed_crossing(HashingOptions options) {
  check_bins(kCrossingName, options);
  const std::string description =
      Description(kCrossingName).add("num_bins", options.num_bins).add(options.output).str();
  return std::make_shared<const CrossingLayer>(options, description);
}

}  // namespace torch_distinput::preprocessing
