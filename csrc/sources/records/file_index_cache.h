// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/index_set.h"

namespace torch_distinput {

/// The indexes that the nodes of one dataset share, so that each version of a file is indexed once. Safe from
/// any thread.
class FileIndexCache {
 public:
  /// Returns the indexes of `files` as they are now. Waits for those that must be built, and looks for
  /// interrupts meanwhile. Throws FileError if a file cannot be indexed.
  std::vector<RecordIndexPtr> get(const std::vector<std::string>& files, const RecordFormat& format);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, RecordIndexPtr> indexes_;
};

}  // namespace torch_distinput
