// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include "torch_distinput/api.h"
#include "torch_distinput/per_replica.h"

namespace torch_distinput {

/// A step, or none at the end of the data. A value.
class TDI_API Optional {
 public:
  explicit Optional(std::optional<PerReplica> value) : value_(std::move(value)) {}
  /// False at the end of the data.
  bool has_value() const noexcept { return value_.has_value(); }
  /// The step; the reference lives as long as this object, and of a temporary it is a copy. Throws
  /// InvalidArgumentError when there is none.
  const PerReplica& get_value() const&;
  PerReplica get_value() const&& { return get_value(); }

 private:
  std::optional<PerReplica> value_;
};

}  // namespace torch_distinput
