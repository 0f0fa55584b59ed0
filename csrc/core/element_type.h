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

/// The same type with unknown shape.
LeafSpec without_shape(LeafSpec leaf);

/// The spec of a user's source, taken from one of its elements: structure, kinds, dtypes and number of dims.
/// The dims become unknown, and the element's are kept as `expected`.
ElementSpec probed_spec(const Element& element);

/// `spec` with unknown dims; those that it had are kept as `expected`.
ElementSpec expected_only(ElementSpec spec);

/// Throws c10::ValueError, which begins with `where`, for a leaf that is an undefined tensor.
void check_defined(const Element& element, std::string_view where);

/// Checks that all elements of a user's source have one structure, and each leaf one kind and dtype: those of
/// the first element. Safe from any thread.
class ElementType {
 public:
  /// Throws c10::ValueError naming `source`, the element's `number`, the leaf, the expected and the actual
  /// type.
  void check(const Element& element, std::int64_t number, std::string_view source);

 private:
  const ElementSpec& first(const Element& element, std::int64_t number, std::string_view source);

  std::once_flag once_;
  std::optional<ElementSpec> first_;
};

/// A spec that is found by a look at the data and then kept. Safe from any thread.
class SpecProbe {
 public:
  /// The spec that `look` returned at the first call where it was not null; null until then. `look` runs
  /// without a lock, perhaps on several threads; what it throws is not kept.
  SpecPtr get(const std::function<SpecPtr()>& look) const;

 private:
  mutable std::mutex mutex_;
  mutable SpecPtr spec_;
};

}  // namespace torch_distinput
