// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "torch_distinput/api.h"

namespace torch_distinput {

class Structure;
/// Structures are interned: equal structures are the same pointer, and stay in memory as long as the process.
using StructurePtr = std::shared_ptr<const Structure>;

/// The nesting of an element: which leaves it has and how dicts, tuples, lists and named tuples hold them.
/// Leaves are numbered in depth-first order, dicts in the order in which their keys were inserted. Immutable;
/// safe from any thread.
class TDI_API Structure {
 public:
  enum class Kind { kLeaf, kNone, kTuple, kList, kDict, kNamedTuple };

  /// One leaf.
  static StructurePtr leaf();
  /// A place that holds `None`: part of the structure, not a leaf.
  static StructurePtr none();
  /// Nested structures; `children` must not hold nulls.
  static StructurePtr tuple(std::vector<StructurePtr> children);
  static StructurePtr list(std::vector<StructurePtr> children);
  /// One key for each child. Throws c10::ValueError where their numbers differ or a key occurs twice.
  static StructurePtr dict(std::vector<std::string> keys, std::vector<StructurePtr> children);
  /// As `dict`. `type` identifies the named tuple's class (in Python its type object) and keeps it alive; two
  /// named tuples are equal only if it is the same.
  static StructurePtr named_tuple(std::string name, std::vector<std::string> fields,
                                  std::vector<StructurePtr> children, std::shared_ptr<void> type);

  // References below live as long as the structure.

  /// What this node of the nesting is.
  Kind kind() const noexcept { return kind_; }
  /// The direct children; empty for a leaf and for `None`.
  const std::vector<StructurePtr>& children() const noexcept { return children_; }
  /// Keys of a dict, fields of a named tuple, else empty.
  const std::vector<std::string>& keys() const noexcept { return keys_; }
  /// The class name of a named tuple, else empty.
  const std::string& name() const noexcept { return name_; }
  /// The class of a named tuple, else null.
  const std::shared_ptr<void>& type() const noexcept { return type_; }
  /// Leaves at all depths.
  std::int64_t leaf_count() const noexcept { return leaf_count_; }

  /// The path to leaf `index`, for messages, such as `['image']`; "" for a bare leaf. Throws c10::IndexError
  /// for an index that is not below `leaf_count()`.
  std::string leaf_path(std::int64_t index) const;
  /// The structure as text, with `*` for a leaf: `{'x': *, 'y': (*, None)}`.
  std::string str() const;

 private:
  Structure() = default;
  static StructurePtr intern(Structure&& candidate);
  std::string identity() const;

  Kind kind_ = Kind::kLeaf;
  std::vector<StructurePtr> children_;
  std::vector<std::string> keys_;
  std::string name_;
  std::shared_ptr<void> type_;
  std::int64_t leaf_count_ = 0;
};

}  // namespace torch_distinput
