// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/input_context.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/state.h"
#include "torch_distinput/stats.h"
#include "torch_distinput/step_info.h"

namespace torch_distinput {

/// How a global batch is cut over the replicas. `kTf`: whichever splitter
/// tf.distribute would run. `kBalanced`: contiguous, in order, sizes that differ
/// by at most one row.
enum class Split { kTf, kBalanced };

/// What happens to a short last batch and to replicas without rows.
enum class Tail {
  kZeroRows,    ///< split as it is; zero-row parts
  kPadded,      ///< parts filled to their full share with their own last row; `valid` counts
  kRepeat,      ///< filled with the first rows of the epoch, all counted
  kDrop,        ///< not delivered
  kUntilFirst,  ///< delivered while every replica has a row
};

class Peers;

/// How many input pipelines there are: one for each process, or one for each replica.
enum class ReplicationMode { kPerWorker, kPerReplica };

/// Options of a distributed dataset (names as in tf.distribute.InputOptions; the
/// last four are this library's).
struct TDI_API InputOptions {
  bool fetch_to_device = true;
  ReplicationMode replication_mode = ReplicationMode::kPerWorker;
  bool place_dataset_on_device = false;
  std::int64_t per_replica_buffer_size = 1;  ///< k: about 1 + 2k steps are read ahead; 0: none
  Split split = Split::kTf;
  Tail tail = Tail::kZeroRows;
  std::optional<std::vector<double>> weights = {};  ///< one per replica, balanced split only
  double peer_timeout = 300.0;                      ///< seconds
};

/// One element per local replica.
class TDI_API PerReplica {
 public:
  PerReplica(std::vector<Element> values, StepInfo info);
  const std::vector<Element>& values() const noexcept { return values_; }
  const StepInfo& info() const noexcept { return info_; }
  std::size_t size() const noexcept { return values_.size(); }
  const Element& operator[](std::size_t replica) const { return values_.at(replica); }
  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }

 private:
  std::vector<Element> values_;
  StepInfo info_;
};

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

/// A cursor over the steps of a distributed dataset. One thread at a time.
/// Errors of the pipeline are raised again at each call; the position stays
/// before the step that failed.
class TDI_API DistributedIterator {
 public:
  struct Impl;
  explicit DistributedIterator(std::unique_ptr<Impl> impl);
  ~DistributedIterator();
  DistributedIterator(DistributedIterator&&) noexcept;
  DistributedIterator& operator=(DistributedIterator&&) noexcept;

  /// The next step, or nullopt at the end. With partial-batch handling off, a
  /// step that lacks a replica's part counts as the end; it is not lost:
  /// `get_next_as_optional` still returns it.
  std::optional<PerReplica> next();
  /// As `next`, but throws OutOfRangeError at the end.
  PerReplica get_next();
  /// Every step, also one that `next` would not deliver.
  Optional get_next_as_optional();

  /// Of the step last handed out; throws FailedPreconditionError before the first.
  const StepInfo& step_info() const;
  State save() const;
  void load(const State& state);
  Stats stats() const;
  void close();

 private:
  std::unique_ptr<Impl> impl_;
};

/// A dataset whose rows a strategy deals out over replicas. Cheap to copy;
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
  /// How the data is dealt out over the processes, and why: `AUTO, applied as DATA: ...`. Reads nothing.
  std::string sharding() const;
  /// Policy, splitter, lane and sizes, and why.
  std::string explain() const;

  class TDI_API Position {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = PerReplica;
    using difference_type = std::ptrdiff_t;
    using pointer = const PerReplica*;
    using reference = const PerReplica&;
    Position() = default;
    explicit Position(std::shared_ptr<DistributedIterator> iterator);
    const PerReplica& operator*() const { return *current_; }
    const PerReplica* operator->() const { return &*current_; }
    Position& operator++();
    bool operator==(const Position& other) const {
      return current_.has_value() == other.current_.has_value();
    }

   private:
    std::shared_ptr<DistributedIterator> iterator_;
    std::optional<PerReplica> current_;
  };
  Position begin() const;
  Position end() const { return {}; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// Who gets which rows on which device. A value; any thread may use it.
class TDI_API Strategy {
 public:
  /// The devices of this process's replicas.
  const std::vector<c10::Device>& devices() const noexcept { return devices_; }
  std::int64_t num_replicas_in_sync() const noexcept;
  std::int64_t num_input_pipelines() const noexcept { return num_workers_; }
  std::int64_t input_pipeline_id() const noexcept { return worker_; }
  /// Whether values come as PerReplica: several replicas, or several workers.
  bool wraps() const noexcept { return devices_.size() > 1 || num_workers_ > 1; }

  /// Whether a step that lacks parts is completed with zero-row ones.
  bool enable_partial_batch_handling;

  /// Deals out the global batches of `dataset` over the replicas. Throws c10::ValueError for elements without
  /// rows, where there are several replicas, and for options that mean nothing.
  DistributedDataset distribute_dataset(const Dataset& dataset, InputOptions options = {}) const;

  /// Hands out the elements of the dataset that `make` returns as they are, which should be batches for one
  /// replica: element k goes to local replica k mod R at step k / R. `make` is called now: once, or with
  /// `ReplicationMode::kPerReplica` once a local replica, each of which then reads its own dataset. Sharding
  /// and batching are its job.
  /// Throws c10::NotImplementedError for kPerReplica where the strategy does not support it, c10::ValueError
  /// for options that mean nothing here, and what `make` throws.
  DistributedDataset distribute_datasets_from_function(
      const std::function<Dataset(const InputContext&)>& make, InputOptions options = {}) const;

  /// The results of `make`, which is called now, once for each local replica in order. Its `info()` says
  /// nothing. Values stay on the device that `make` put them on.
  PerReplica distribute_values_from_function(const std::function<Element(const ValueContext&)>& make) const;

 protected:
  Strategy(std::vector<c10::Device> devices, bool partial_batches);
  std::vector<c10::Device> devices_;
  std::int64_t num_workers_ = 1;
  std::int64_t worker_ = 0;
  std::shared_ptr<Peers> peers_;       ///< the other processes; null: there are none
  bool pipeline_per_replica_ = false;  ///< kPerReplica is supported
};

/// One device; batches are not split.
class TDI_API OneDeviceStrategy : public Strategy {
 public:
  explicit OneDeviceStrategy(const std::string& device);
};

/// Several replicas in this process. No devices: every accelerator torch sees,
/// else one CPU. `{"cpu", "cpu"}` is legal. Throws c10::ValueError for a device
/// that does not exist.
class TDI_API MirroredStrategy : public Strategy {
 public:
  explicit MirroredStrategy(std::vector<std::string> devices = {});
};

}  // namespace torch_distinput
