// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/tokens/token_arguments.h"

#include <limits>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

/// Far below 2^63, so that sums and products with the size of an item do not overflow.
constexpr std::int64_t kMaxSequence = std::int64_t{1} << 40;

void check_range(const char* option, std::int64_t value, std::int64_t least, std::int64_t most) {
  TORCH_CHECK_VALUE(value >= least && value <= most, kTokenDatasetName, ": `", option, "` must be at least ",
                    least, " and at most ", most, ", but is ", value, ".");
}

}  // namespace

void check_token_options(const TokenOptions& options) {
  if (options.sequence_length) check_range("sequence_length", *options.sequence_length, 1, kMaxSequence);
  if (options.stride) check_range("stride", *options.stride, 1, kMaxSequence);
  TORCH_CHECK_VALUE(!options.stride || options.sequence_length, kTokenDatasetName,
                    ": `stride` needs a `sequence_length`; without one, elements are whole documents.");
  if (options.document_boundary) {
    check_range("document_boundary", *options.document_boundary, kIndexedDocuments,
                std::numeric_limits<std::uint32_t>::max());
  }
  if (options.vocab_size) check_range("vocab_size", *options.vocab_size, 1, kMaxSequence);
  TORCH_CHECK_VALUE(options.output_dtype == c10::kLong || options.output_dtype == c10::kInt,
                    kTokenDatasetName, ": `output_dtype` must be int64 or int32, but is ",
                    dtype_name(options.output_dtype), ".");
}

std::string token_arguments(std::string first, const TokenOptions& options) {
  const auto add = [&first](const char* name, const std::string& value) {
    first += (first.empty() ? "" : ", ") + std::string(name) + "=" + value;
  };
  add("sequence_length", options.sequence_length ? std::to_string(*options.sequence_length) : "None");
  if (options.stride) add("stride", std::to_string(*options.stride));
  if (options.document_boundary == kIndexedDocuments) {
    add("document_boundary", "\"index\"");
  } else if (options.document_boundary) {
    add("document_boundary", std::to_string(*options.document_boundary));
  }
  if (options.vocab_size) add("vocab_size", std::to_string(*options.vocab_size));
  if (options.output_dtype != c10::kLong) add("output_dtype", dtype_name(options.output_dtype));
  return first;
}

TokenCuts cuts_of(const TokenOptions& options) {
  TokenCuts cuts;
  if (!options.sequence_length) return cuts;
  cuts.length = *options.sequence_length + 1;
  cuts.stride = options.stride.value_or(*options.sequence_length);
  cuts.by_document = options.document_boundary.has_value();
  return cuts;
}

TokenConversion conversion_of(const TokenOptions& options, c10::ScalarType from) {
  TokenConversion conversion{from, options.output_dtype, options.vocab_size};
  const bool may_not_fit = options.output_dtype == c10::kInt && (from == c10::kUInt32 || from == c10::kLong);
  constexpr std::int64_t kIntEnd = std::int64_t{1} << 31;
  if (may_not_fit) conversion.limit = std::min(conversion.limit.value_or(kIntEnd), kIntEnd);
  return conversion;
}

}  // namespace torch_distinput
