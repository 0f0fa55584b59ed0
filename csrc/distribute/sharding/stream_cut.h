// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A pipeline whose sources can be cut into any number of streams, up to a limit. Each stream is the whole
/// pipeline over its own part of the sources, so that the ops above them have buffers and states of their own
/// in it. Immutable; safe from any thread.
class StreamCut {
 public:
  /// Where a source is cut.
  struct Place {
    const Node* node;
    std::int64_t elements;  ///< of a node with random access, which is cut into ranges; -1: names of files
  };

  /// REQUIRES: `places` lie at or below `node`, none below another one, and there is one below each source.
  StreamCut(NodePtr node, std::vector<Place> places, std::int64_t most)
      : node_(std::move(node)), places_(std::move(places)), most_(most) {}

  /// The number of streams that suits any number of ranks. At least 2.
  std::int64_t most() const noexcept { return most_; }
  /// Stream `stream` of `count`; all of them together have each element of the sources once.
  NodePtr stream(std::int64_t stream, std::int64_t count) const;
  /// The pipeline of which they are cut.
  const NodePtr& node() const noexcept { return node_; }
  /// The same, for its cardinality: as far as that is known without reading files to count their records.
  NodePtr uncounted() const;
  /// Elements drawn by the mixture of `node` before the part of stream `stream` of `count`, from each of its
  /// datasets; empty where each stream has a mixture of its own, or none. `context`: of the streams.
  std::vector<std::int64_t> sampled_before(std::int64_t stream, std::int64_t count,
                                           const IterContext& context) const;
  /// What is cut, such as "files of TFRecordDataset": the same for all numbers of streams.
  std::string describe() const;
  /// Whether a source is cut by names of files, so that a rank need not be able to read those of others.
  bool by_files() const;

 private:
  const Place* place_of(const Node& node) const;

  NodePtr node_;
  std::vector<Place> places_;
  std::int64_t most_;
};
using StreamCutPtr = std::shared_ptr<const StreamCut>;

/// How to cut the rows of `node`, below the op that makes the batches of its elements, or why that is not
/// possible or of no use. Sources are cut by name of file where there are many files or no random access,
/// else into ranges of elements. May index files, and throws what that throws.
std::variant<StreamCutPtr, std::string> cut_streams(const NodePtr& node);

/// The op that makes the batches that `node` yields, with nothing after it but functions of one batch; null
/// if there is none, or the sizes of its batches change.
const Node* last_batch(const Node& node);

}  // namespace torch_distinput
