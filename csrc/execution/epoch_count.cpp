// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/epoch_count.h"

#include <random>

namespace torch_distinput {

std::int64_t EpochCount::begin() {
  const std::lock_guard lock(mutex_);
  if (used_) ++epoch_;
  used_ = false;
  return epoch_;
}

std::int64_t EpochCount::peek() {
  const std::lock_guard lock(mutex_);
  return used_ ? epoch_ + 1 : epoch_;
}

void EpochCount::mark_used(std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  if (epoch == epoch_) used_ = true;
}

void EpochCount::pin(std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  used_ = false;
}

void EpochCount::adopt(std::int64_t epoch, bool used, std::uint64_t seed) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  used_ = used;
  seed_ = seed;
}

std::uint64_t EpochCount::seed() {
  const std::lock_guard lock(mutex_);
  if (!seed_) {
    std::random_device device;
    seed_ = std::uint64_t{device()} << 32 | device();
  }
  return *seed_;
}

}  // namespace torch_distinput
