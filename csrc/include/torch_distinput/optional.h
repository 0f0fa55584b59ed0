// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "torch_distinput/api.h"
#include "torch_distinput/per_replica.h"

namespace torch_distinput {

/// A step that may be absent: at the end of the data it is.
class TDI_API Optional {
 public:
  explicit Optional(std::optional<PerReplica> value) : value_(std::move(value)) {}
  bool has_value() const noexcept { return value_.has_value(); }
  /// Throws InvalidArgumentError when there is no value.
  const PerReplica& get_value() const;

 private:
  std::optional<PerReplica> value_;
};

}  // namespace torch_distinput
