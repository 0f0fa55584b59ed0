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

/// The arguments of a `bucket_by_length` and what follows from them. Immutable: any thread may use it.
class Buckets {
 public:
  /// Throws c10::ValueError naming the parameter that is wrong.
  Buckets(FunctionPtr length, BucketOptions options);

  const FunctionPtr& length() const { return length_; }
  const BucketOptions& options() const { return options_; }
  const Padding& padding() const { return padding_; }
  /// `bucket_by_length(length)`.
  std::string call() const;
  /// The call with all arguments that are set.
  std::string describe() const;

  /// The bucket of the input's element `number`; `key` is the op's, for random numbers of rows. Throws what
  /// the function throws, and c10::TypeError for a result that is no int.
  std::size_t of(Element element, std::int64_t number, std::uint64_t key) const;

  /// `elements` of bucket `bucket` as one batch. `spec` is theirs, null if unknown.
  Element batch(const std::vector<Element>& elements, std::size_t bucket, const SpecPtr& spec,
                BufferPool& pool) const;

 private:
  FunctionPtr length_;
  BucketOptions options_;
  Padding padding_;
};

}  // namespace torch_distinput
