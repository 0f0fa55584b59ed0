// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/distributed_dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/input_context.h"
#include "torch_distinput/input_options.h"
#include "torch_distinput/per_replica.h"

namespace torch_distinput {

class Peers;

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
