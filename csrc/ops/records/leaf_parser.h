// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "execution/parse_node.h"
#include "torch_distinput/records.h"

namespace torch_distinput {

/// Turns the strings of one leaf into one or several leaves. Immutable, so safe from any thread.
class LeafParser {
 public:
  virtual ~LeafParser() = default;

  /// The call for `describe`, such as `decode_raw(dtype=torch.uint8, shape=(4,))`, without the closing
  /// bracket.
  virtual std::string describe() const = 0;
  /// The spec of what a leaf of strings of `shape` becomes. Throws c10::ValueError if it cannot be parsed.
  virtual ElementSpec spec(const std::optional<Dims>& shape) const = 0;
  /// Returns what `records` becomes; otherwise as ElementParser::parse.
  virtual Element parse(Bytes records, BufferPool& pool, const RecordName& name) const = 0;
  /// As in ElementParser.
  virtual bool stacks() const { return true; }
  virtual bool row_wise() const { return true; }
};

/// Returns the node that parses the leaf named by `key` (unset: the only leaf of strings) and keeps the other
/// leaves. Throws c10::TypeError for another kind of leaf and c10::ValueError if there is no such leaf or
/// more than one could be meant: at once if the spec of `input` is known, else from `next`.
NodePtr parse_leaf(NodePtr input, std::string op, std::shared_ptr<const LeafParser> parser,
                   std::optional<LeafKey> key);

/// Returns the place of the leaf named by `key`, which must hold strings. Throws as `parse_leaf`.
std::size_t find_strings(const ElementSpec& spec, const std::optional<LeafKey>& key, const std::string& op);

/// Returns `structure` with `part` in the place of leaf `leaf`.
StructurePtr replace_leaf(const StructurePtr& structure, std::size_t leaf, const StructurePtr& part);

}  // namespace torch_distinput
