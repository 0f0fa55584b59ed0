// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/read_at_once.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <system_error>
#include <vector>

#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

/// Hands out the numbers below `count`.
class Numbers {
 public:
  explicit Numbers(std::size_t count) : count_(count) {}

  void read_each(const std::function<void(std::size_t)>& read) {
    for (std::size_t number = next_++; number < count_; number = next_++) read(number);
  }
  void stop() { next_ = count_; }

 private:
  std::size_t count_;
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace

void read_at_once(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& read) {
  Numbers numbers(count);
  const auto help = [&] {
    try {
      numbers.read_each(read);
    } catch (...) {
      // The caller finds what is missing.
    }
  };
  std::vector<std::unique_ptr<WorkerThread>> helpers;
  const std::shared_ptr<void> stop(nullptr, [&](void*) { numbers.stop(); });  // before helpers are joined
  for (std::size_t i = 1; i < std::min(threads + 1, count); ++i) {
    try {
      helpers.push_back(std::make_unique<WorkerThread>("tdi-read", help));
    } catch (const std::system_error&) {
      break;  // no more threads are to be had
    }
  }
  numbers.read_each(read);
}

}  // namespace torch_distinput
