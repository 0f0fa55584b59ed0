// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/distributed_dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/input_context.h"
#include "torch_distinput/input_options.h"
#include "torch_distinput/per_replica.h"
#include "torch_distinput/reduce.h"
#include "torch_distinput/replica_context.h"

namespace torch_distinput {

class AgreedSeeds;     // private to the library
class Peers;           // private to the library
class ReplicaThreads;  // private to the library
class ValueRounds;     // private to the library

/// Decides which replica gets which rows on which device. A value: copies share the connection to the other
/// processes. Safe from any thread, except that `enable_partial_batch_handling` is a plain field.
class TDI_API Strategy {
 public:
  /// The devices of this process's replicas, in order; "cpu" may occur several times. The reference lives as
  /// long as the strategy; of a temporary, a copy.
  const std::vector<c10::Device>& devices() const& noexcept { return devices_; }
  std::vector<c10::Device> devices() const&& { return devices_; }
  /// Replicas of all processes.
  std::int64_t num_replicas_in_sync() const noexcept;
  /// Processes (ranks), and the index of this one.
  std::int64_t num_input_pipelines() const noexcept { return num_ranks_; }
  std::int64_t input_pipeline_id() const noexcept { return rank_; }
  /// Whether Python gets values as PerReplica: there are several local replicas or several ranks.
  bool wraps() const noexcept { return devices_.size() > 1 || num_ranks_ > 1; }

  /// Whether a step that lacks parts is completed with zero-row ones. Read when a dataset is distributed.
  bool enable_partial_batch_handling;

  /// Assigns the rows of the global batches of `dataset` to the replicas. Throws c10::ValueError for elements
  /// without rows where there are several replicas, and for options out of range or without a meaning here;
  /// c10::NotImplementedError for kPerReplica. What one process throws is a DistributedDatasetError on the
  /// others.
  DistributedDataset distribute_dataset(const Dataset& dataset, InputOptions options = {}) const;

  /// Distributes the elements of the dataset that `make` returns as they are; they should be batches for one
  /// replica. Element k goes to local replica k mod R at step k div R. `make` is called now: once, or with
  /// `ReplicationMode::kPerReplica` once for each local replica, which then reads a dataset of its own.
  /// Sharding and batching are up to `make`. Throws c10::NotImplementedError for kPerReplica where the
  /// strategy does not support it, c10::ValueError for options without a meaning here, and what `make`
  /// throws.
  DistributedDataset distribute_datasets_from_function(
      const std::function<Dataset(const InputContext&)>& make, InputOptions options = {}) const;

  /// The results of `make`, which is called now, once for each local replica in order. `info()` of the result
  /// is empty. Values stay on the device that `make` put them on.
  PerReplica distribute_values_from_function(const std::function<Element(const ValueContext&)>& make) const;

  /// Calls `function` once for each local replica, each in a thread of its own where there are several, and
  /// returns the results in the order of the replicas once all calls have ended. Each replica gets its own
  /// element of every PerReplica among `arguments`, and all other arguments as they are, by const reference;
  /// before them the ReplicaContext, where `function` takes one. The caller's grad mode, inference mode and
  /// autocast hold inside, and the replica's device and its caller's stream are current there. Throws
  /// ReplicaError if replicas fail.
  template <class Function, class... Arguments>
  auto run(const Function& function, const Arguments&... arguments) const {
    constexpr bool kTakesContext =
        std::is_invocable_v<const Function&, const ReplicaContext&, PartOf<Arguments>...>;
    static_assert(
        kTakesContext || std::is_invocable_v<const Function&, PartOf<Arguments>...>,
        "run: the function must be callable, as const, with one argument for each that `run` gets, a "
        "`const tdi::Element&` in the place of a PerReplica; before them it may take a "
        "`const tdi::ReplicaContext&`");
    const auto call = [&](const ReplicaContext& context) -> decltype(auto) {
      if constexpr (kTakesContext)
        return function(context, part_of(arguments, context.local_replica())...);
      else
        return function(part_of(arguments, context.local_replica())...);
    };
    using Result = std::decay_t<decltype(call(std::declval<const ReplicaContext&>()))>;
    if constexpr (std::is_void_v<Result>) {
      run_replicas(call);
    } else {
      std::vector<std::optional<Result>> results(devices_.size());
      run_replicas([&](const ReplicaContext& context) { results[context.local_replica()] = call(context); });
      std::vector<Result> values;
      for (std::optional<Result>& result : results) values.push_back(*std::move(result));
      return values;
    }
  }

  /// As the functions of the same name, over the replicas of all processes; `values` has one value for each
  /// local replica, and the result lies on the first local replica's value's device. With several processes,
  /// all of them must call it, in the same order; gradients flow to the values of this process only. Throws
  /// DistributedDatasetError where another process is gone.
  at::Tensor reduce(ReduceOp op, const std::vector<at::Tensor>& values,
                    const std::optional<std::vector<std::int64_t>>& axis = {}) const;
  at::Tensor gather(const std::vector<at::Tensor>& values, std::int64_t axis) const;

 protected:
  Strategy(std::vector<c10::Device> devices, bool partial_batches);
  std::vector<c10::Device> devices_;
  std::int64_t num_ranks_ = 1;
  std::int64_t rank_ = 0;
  std::shared_ptr<Peers> peers_;               ///< the other processes; null: there are none
  std::shared_ptr<AgreedSeeds> seeds_;         ///< of data without seeds; null: the processes draw their own
  std::shared_ptr<ValueRounds> value_rounds_;  ///< the values of all processes; null: there is one process
  bool pipeline_per_replica_ = false;          ///< whether kPerReplica is supported

 private:
  template <class Argument>
  static const Argument& part_of(const Argument& argument, std::size_t) {
    return argument;
  }
  static const Element& part_of(const PerReplica& argument, std::size_t replica) { return argument[replica]; }
  template <class Argument>
  using PartOf = decltype(part_of(std::declval<const Argument&>(), std::size_t{}));

  void run_replicas(const std::function<void(const ReplicaContext&)>& call) const;
  std::vector<at::Tensor> values_of_all(const std::vector<at::Tensor>& values) const;
  void check_one_for_each(const std::vector<at::Tensor>& values, const char* call) const;

  std::shared_ptr<ReplicaThreads> threads_;
};

/// One replica on one device; batches are not split.
class TDI_API OneDeviceStrategy : public Strategy {
 public:
  /// `device` is a torch device string, such as "cpu" or "cuda:0". Throws c10::ValueError for one that does
  /// not exist.
  explicit OneDeviceStrategy(const std::string& device);
};

/// Several replicas in this process.
class TDI_API MirroredStrategy : public Strategy {
 public:
  /// One replica for each device; `{"cpu", "cpu"}` is legal. Empty: every accelerator that torch sees, else
  /// one CPU. Throws c10::ValueError for a device that does not exist or an accelerator that is named twice.
  explicit MirroredStrategy(std::vector<std::string> devices = {});
};

}  // namespace torch_distinput
