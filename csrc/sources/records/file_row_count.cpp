// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_row_count.h"

#include <exception>

#include "core/interrupt_watch.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

std::int64_t FileRowCount::get(const Count& count) const {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return kUnknownCardinality;
    if (known_) return *known_;
  }
  const InterruptWatch watch;
  try {
    return count_now(count);
  } catch (const std::exception&) {
    if (watch.interrupt()) throw;
    const std::lock_guard lock(mutex_);
    failed_ = true;
    return kUnknownCardinality;
  }
}

void FileRowCount::check(const Count& count) const {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_) return;
  }
  count_now(count);
}

std::int64_t FileRowCount::count_now(const Count& count) const {
  // Without the lock: counting may run code of the user's, which must not wait for it.
  const std::int64_t rows = count();
  const std::lock_guard lock(mutex_);
  failed_ = false;
  known_.reset();
  if (rows != kUnknownCardinality) known_ = rows;
  return rows;
}

}  // namespace torch_distinput
