// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "io/file.h"

namespace torch_distinput {

/// Open files by number, the ones used last kept open. Any thread may call.
class FileHandles {
 public:
  /// Keeps at most `most` files open, besides those in use.
  explicit FileHandles(std::size_t most) : most_(most) {}

  /// File `number`, opened as `path` if it is not. Throws FileError.
  FilePtr get(std::int64_t number, const std::string& path);

 private:
  using Entry = std::pair<std::int64_t, FilePtr>;

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> used_;  ///< the last one used first
  std::unordered_map<std::int64_t, std::list<Entry>::iterator> places_;
};

}  // namespace torch_distinput
