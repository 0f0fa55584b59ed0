// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset_iterator.h"
#include "torch_distinput/distributed_iterator.h"
#include "torch_distinput/per_replica.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// A dataset whose rows a strategy assigns over replicas. Cheap to copy;
/// copies count epochs together.
class TDI_API DistributedDataset {
 public:
  struct Impl;
  explicit DistributedDataset(std::shared_ptr<Impl> impl);

  DistributedIterator iterate(IterateOptions options = {}) const;
  /// The spec of one replica's part.
  ElementSpec element_spec() const;
  /// Cardinality of the dataset that was distributed: global batches.
  std::int64_t cardinality() const;
  /// Steps an epoch: what `next` will deliver; nullopt where it cannot be known. Where a function
  /// decides how many rows a batch has, batches are taken to have some: empty ones at the end of
  /// the epoch are not delivered.
  std::optional<std::int64_t> num_steps() const;
  /// Whether the iterator fills missing parts (`partial_batch_handling`).
  bool partial_batch_handling() const;
  void set_epoch(std::int64_t epoch) const;
  /// The pipelines that it reads.
  std::vector<NodePtr> pipelines() const;
  /// How the data is assigned over the processes, and why: `AUTO, applied as DATA: ...`. Reads nothing.
  std::string sharding() const;
  /// Policy, splitter, path and sizes, and why.
  std::string explain() const;

  class TDI_API const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = PerReplica;
    using difference_type = std::ptrdiff_t;
    using pointer = const PerReplica*;
    using reference = const PerReplica&;
    const_iterator() = default;
    explicit const_iterator(std::shared_ptr<DistributedIterator> iterator);
    const PerReplica& operator*() const { return *current_; }
    const PerReplica* operator->() const { return &*current_; }
    const_iterator& operator++();
    bool operator==(const const_iterator& other) const {
      return current_.has_value() == other.current_.has_value();
    }

   private:
    std::shared_ptr<DistributedIterator> iterator_;
    std::optional<PerReplica> current_;
  };
  const_iterator begin() const;
  const_iterator end() const { return {}; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace torch_distinput
