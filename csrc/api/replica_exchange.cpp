// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/replica_exchange.h"

#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

namespace torch_distinput {

at::Tensor ReplicaExchange::exchange(std::size_t replica, Arrival arrival,
                                     const std::function<Tensors(const Tensors&)>& join) {
  std::unique_lock lock(mutex_);
  check();
  waiting_[replica] = std::move(arrival);
  if (++arrived_ == waiting_.size()) {
    error_ = nullptr;
    try {
      results_ = joined(join);
    } catch (const std::exception&) {
      error_ = std::current_exception();
    }
    for (auto& one : waiting_) one.reset();
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  } else {
    const std::int64_t round = round_;
    while (round_ == round) {
      check();
      changed_.wait(lock);
    }
  }
  // No replica begins the next round before all have left this one: it needs the call of each.
  if (error_) std::rethrow_exception(error_);
  return std::exchange(results_[replica], {});
}

ReplicaExchange::Tensors ReplicaExchange::joined(const std::function<Tensors(const Tensors&)>& join) const {
  Tensors mine;
  std::vector<c10::Stream> streams;
  bool records = false;
  for (const auto& one : waiting_) {
    TORCH_CHECK_VALUE(one->call == waiting_.front()->call, "run: replica 0 called ", waiting_.front()->call,
                      ", but replica ", mine.size(), " called ", one->call, ".");
    mine.push_back(one->value);
    if (one->stream) streams.push_back(*one->stream);
    records = records || one->records;
  }
  const c10::AutoGradMode grad(records);
  const c10::MultiStreamGuard on_streams(streams);
  Tensors results = join(across_(mine));
  // A replica that records no gradients must not get a result that requires them because others do.
  for (std::size_t replica = 0; replica < results.size(); ++replica)
    if (!waiting_[replica]->records) results[replica] = results[replica].detach();
  return results;
}

void ReplicaExchange::leave(std::size_t replica) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!left_) left_ = replica;
  }
  changed_.notify_all();
}

void ReplicaExchange::check() const {
  if (!left_) return;
  throw ExchangeBroken("run: replica " + std::to_string(*left_) +
                       " threw or returned while another replica waited for it.");
}

}  // namespace torch_distinput
