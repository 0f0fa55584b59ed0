// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/replica_run.h"

#include <utility>

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace torch_distinput {
namespace {

/// The current stream of an accelerator; nullopt for a CPU.
std::optional<c10::Stream> current_stream(c10::Device device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// What leaving `torch.autocast` does and at::ThreadLocalState does not: the outermost one of a thread drops
/// the cached casts, which are those of weights before the optimizer's step.
class CastCacheScope {
 public:
  explicit CastCacheScope(bool caches) : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(caches);
    at::autocast::increment_nesting();
  }
  ~CastCacheScope() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_cache_enabled(before_);
  }
  CastCacheScope(const CastCacheScope&) = delete;
  CastCacheScope& operator=(const CastCacheScope&) = delete;

 private:
  bool before_;
};

}  // namespace

ReplicaRun::ReplicaRun(std::vector<c10::Device> devices, std::optional<c10::Device> accelerator)
    : devices_(std::move(devices)),
      caller_caches_casts_(at::autocast::is_autocast_cache_enabled()),
      arrivals_(devices_.size()) {
  for (const c10::Device device : devices_)
    streams_.push_back(current_stream(device.is_cpu() ? accelerator.value_or(device) : device));
}

void ReplicaRun::call(std::size_t replica, const std::function<void()>& function) {
  struct Leaving {
    ReplicaRun& run;
    std::size_t replica;
    ~Leaving() { run.leave(replica); }
  } const leaving{*this, replica};
  const at::ThreadLocalStateGuard as_in_caller(caller_);
  const CastCacheScope casts(caller_caches_casts_);
  const c10::OptionalStreamGuard on_stream(streams_[replica]);
  function();
}

void ReplicaRun::meet(std::size_t replica, const std::function<void()>& join) {
  std::unique_lock lock(mutex_);
  check();
  arrivals_[replica] = {c10::GradMode::is_enabled(), current_stream(devices_[replica])};
  if (++arrived_ == size()) {
    lock.unlock();
    std::exception_ptr error;
    try {
      run_for_all(join);
    } catch (const std::exception&) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = std::move(error);
    with_error_ = 0;
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
  if (!error_) return;
  const std::exception_ptr error = ++with_error_ == size() ? std::exchange(error_, nullptr) : error_;
  std::rethrow_exception(error);
}

void ReplicaRun::run_for_all(const std::function<void()>& join) const {
  std::vector<c10::Stream> streams;
  bool records = false;
  for (const Arrival& arrival : arrivals_) {
    if (arrival.stream) streams.push_back(*arrival.stream);
    records = records || arrival.records;
  }
  const c10::AutoGradMode grad(records);
  const c10::MultiStreamGuard on_streams(streams);
  join();
}

void ReplicaRun::leave(std::size_t replica) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!left_) left_ = replica;
  }
  changed_.notify_all();
}

void ReplicaRun::check() const {
  if (!left_) return;
  throw ExchangeBroken("run: replica " + std::to_string(*left_) +
                       " raised or returned while another replica waited for it.");
}

}  // namespace torch_distinput
