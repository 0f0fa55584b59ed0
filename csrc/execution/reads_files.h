// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A source that reads files, and tells what an epoch needs of those that are objects of stores.
class ReadsFiles {
 public:
  virtual ~ReadsFiles() = default;
  /// The files of an epoch; nullopt where their number is not known.
  virtual std::optional<std::vector<std::string>> files(const IterContext& context) const = 0;
  /// Whether an index of an object must be made before its rows can be counted, which reads all of it. May
  /// look for stored indexes.
  virtual bool lacks_index(const IterContext&) const { return false; }
  /// Whether rows are read in blocks, which are kept, so that what a plan announces for its elements is not
  /// what servers are asked for. Then `announce_blocks` announces all of an epoch.
  virtual bool reads_blocks() const { return false; }
  virtual void announce_blocks(const IterContext&) const {}
};

}  // namespace torch_distinput
