// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distribute/coordination/peers.h"

namespace torch_distinput {

/// Rounds in which every process of a strategy sends tensors and receives those of all processes. Safe from
/// any thread; all processes must take part in the same order.
class ValueRounds {
 public:
  explicit ValueRounds(PeersPtr peers) : peers_(std::move(peers)) {}
  ~ValueRounds();
  ValueRounds(const ValueRounds&) = delete;
  ValueRounds& operator=(const ValueRounds&) = delete;

  /// The values of all processes by rank: `mine` as they are, the others on the CPU. Throws
  /// DistributedDatasetError where a process is gone or sends nothing within 5 minutes.
  std::vector<at::Tensor> of_all(const std::vector<at::Tensor>& mine);

 private:
  void open();
  void check() const;

  PeersPtr peers_;
  std::mutex mutex_;  ///< guards the members below
  std::string scope_;
  std::unique_ptr<MonitoredIterator> watched_;
  std::int64_t done_ = 0;
};

}  // namespace torch_distinput
