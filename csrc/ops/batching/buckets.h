// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/batching/padding.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/function.h"

namespace torch_distinput {

/// The arguments of a `bucket_by_length`, and the rules that follow from them. Immutable, so safe from any
/// thread.
class Buckets {
 public:
  /// Checks the arguments. Throws c10::ValueError naming a parameter that breaks a rule.
  Buckets(FunctionPtr length, BucketOptions options);

  /// The arguments; valid as long as this object.
  const FunctionPtr& length() const { return length_; }
  const BucketOptions& options() const { return options_; }
  const Padding& padding() const { return padding_; }
  /// The call for messages, such as `bucket_by_length(length)`.
  std::string call() const;
  /// The call with all arguments that are set.
  std::string describe() const;

  /// Returns the bucket of `element`, the input's element `number`. `key` is the op's, for random numbers of
  /// rows. Throws what the function throws, c10::TypeError if it does not return one int scalar, and
  /// c10::ValueError for a length beyond the last boundary with `pad_to_bucket_boundary`.
  std::size_t of(Element element, std::int64_t number, std::uint64_t key) const;

  /// Returns `elements` of bucket `bucket` as one padded batch. `spec` is that of the elements, null if
  /// unknown. Throws as `pad_rows`. REQUIRES: at least one element.
  Element batch(const std::vector<Element>& elements, std::size_t bucket, const SpecPtr& spec,
                BufferPool& pool) const;

 private:
  FunctionPtr length_;
  BucketOptions options_;
  Padding padding_;
};

}  // namespace torch_distinput
