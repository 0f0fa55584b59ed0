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
#include "torch_distinput/row_ledger.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// A dataset whose rows a strategy assigns over replicas; strategies make it. Cheap to copy; copies count
/// epochs together. Safe from any thread.
class TDI_API DistributedDataset {
 public:
  struct Impl;  ///< private to the library
  explicit DistributedDataset(std::shared_ptr<Impl> impl);

  /// Opens a new iterator. With several processes, all of them must take the first steps of a dataset's
  /// iterators in the same order. `pin_memory` is ignored. Throws c10::ValueError for a negative epoch.
  DistributedIterator iterate(IterateOptions options = {}) const;
  /// The spec of one replica's part. Throws c10::ValueError where it cannot be known.
  ElementSpec element_spec() const;
  /// Cardinality of the dataset that was distributed: global batches, `kInfiniteCardinality` or
  /// `kUnknownCardinality`.
  std::int64_t cardinality() const;
  /// Steps an epoch: how many `next` will return; nullopt where the number cannot be known. Where a function
  /// decides how many rows a batch has, this counts every batch as one with rows; empty ones at the end of
  /// the epoch are not delivered.
  std::optional<std::int64_t> num_steps() const;
  /// The rows of the next epoch's last step, where some replica gets none of them and with `Tail::kMerge` all
  /// would get some. Nullopt also for another tail than `kZeroRows`, for datasets of a function, and where
  /// rows are not known before they are read.
  std::optional<std::int64_t> rows_to_merge() const;
  /// Which rows each replica gets in each step of an epoch. Throws c10::ValueError for a negative epoch,
  /// where replicas or processes do not read one stream, where the pipeline has no random access (naming the
  /// op), and where only reading tells the rows of its elements.
  RowLedger ledger(const LedgerEpoch& epoch) const;
  /// Whether the iterator completes a step that lacks parts with zero-row ones
  /// (`Strategy::enable_partial_batch_handling`).
  bool partial_batch_handling() const;
  /// The next iterator runs `epoch`, which must be at least 0, and later ones count on from it.
  void set_epoch(std::int64_t epoch) const;
  /// The last nodes of the pipelines that it reads.
  std::vector<NodePtr> pipelines() const;
  /// How the data is assigned over the processes, and why: `AUTO, applied as DATA: ...`. Reads no data.
  std::string sharding() const;
  /// A report, one line for each fact: policy, splitter, path and sizes, and why.
  std::string explain() const;

  /// An input iterator over the steps of one epoch, for range-for. One thread at a time; a reference to a
  /// step is valid until `++`, and `*` of a temporary is a copy.
  class TDI_API const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = PerReplica;
    using difference_type = std::ptrdiff_t;
    using pointer = const PerReplica*;
    using reference = const PerReplica&;
    const_iterator() = default;
    explicit const_iterator(std::shared_ptr<DistributedIterator> iterator);
    const PerReplica& operator*() const& { return *current_; }
    PerReplica operator*() const&& { return *current_; }
    const PerReplica* operator->() const { return &*current_; }
    const_iterator& operator++();
    bool operator==(const const_iterator& other) const {
      return current_.has_value() == other.current_.has_value();
    }

   private:
    std::shared_ptr<DistributedIterator> iterator_;
    std::optional<PerReplica> current_;
  };
  /// Opens an iterator (`iterate()`) and reads its first step.
  const_iterator begin() const;
  const_iterator end() const { return {}; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace torch_distinput
