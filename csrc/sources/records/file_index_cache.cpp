// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_index_cache.h"

#include "runtime/arena.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {

std::vector<RecordIndexPtr> FileIndexCache::get(const std::vector<std::string>& files,
                                                const RecordFormat& format) {
  std::vector<RecordIndexPtr> found(files.size());
  std::vector<std::string> missing;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileStamp stamp = stamp_of(files[i]);
    const std::lock_guard lock(mutex_);
    const auto known = indexes_.find(files[i]);
    if (known != indexes_.end() && known->second->stamp() == stamp) {
      found[i] = known->second;
    } else {
      missing.push_back(files[i]);
      places.push_back(i);
    }
  }
  if (missing.empty()) return found;
  // Without the lock: the interrupt check may run user code, which must not wait for it. Two threads may
  // build the same index.
  const auto built = index_files(missing, format, available_cpus(), interrupt_check());
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    found[places[i]] = built[i];
    indexes_[missing[i]] = built[i];
  }
  return found;
}

}  // namespace torch_distinput
