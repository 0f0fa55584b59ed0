// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/file_handles.h"

#include <memory>

namespace torch_distinput {

FilePtr FileHandles::get(std::int64_t number, const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(number); found != places_.end()) {
      used_.splice(used_.begin(), used_, found->second);
      return found->second->second;
    }
  }
  auto file = std::make_shared<const File>(path);
  FilePtr closed;  // declared before the lock: the file is closed after the lock is released
  const std::lock_guard lock(mutex_);
  if (const auto found = places_.find(number); found != places_.end()) return found->second->second;
  used_.emplace_front(number, file);
  places_.emplace(number, used_.begin());
  if (used_.size() > most_) {
    closed = std::move(used_.back().second);
    places_.erase(used_.back().first);
    used_.pop_back();
  }
  return file;
}

}  // namespace torch_distinput
