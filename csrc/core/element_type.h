// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// The same type with its shape left open.
LeafSpec without_shape(LeafSpec leaf);

/// The spec that one element of a user's source promises for the others: its structure, kinds, dtypes and
/// number of dims. The dims themselves are only expected.
ElementSpec probed_spec(const Element& element);

/// `spec` with its dims made unknown, and only expected.
ElementSpec expected_only(ElementSpec spec);

/// Holds the elements of a user's source to one structure, and each leaf to one kind and dtype: those of
/// the element it sees first. Any thread may call.
class ElementType {
 public:
  /// Throws c10::ValueError naming `source`, the element's `number`, the leaf, what was expected and what
  /// came.
  void check(const Element& element, std::int64_t number, std::string_view source);

 private:
  const ElementSpec& first(const Element& element);

  std::once_flag once_;
  std::optional<ElementSpec> first_;
};

/// A spec that takes a look at the data, once. Any thread may call.
class SpecProbe {
 public:
  /// The spec that `look` found at the first call that found one.
  SpecPtr get(const std::function<SpecPtr()>& look) const;

 private:
  mutable std::mutex mutex_;
  mutable SpecPtr spec_;
};

}  // namespace torch_distinput
