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

/// A cache of open files by number that closes the least recently used ones. Safe from any thread.
class FileHandles {
 public:
  /// Keeps at most `most` files open. A file that a caller still holds stays open in addition.
  explicit FileHandles(std::size_t most) : most_(most) {}

  /// Returns file `number`; opens `path` if it is not open yet. A number must always come with the same path.
  /// Throws FileError if the file cannot be opened.
  FilePtr get(std::int64_t number, const std::string& path);

 private:
  using Entry = std::pair<std::int64_t, FilePtr>;

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Entry> used_;  ///< the most recently used one first
  std::unordered_map<std::int64_t, std::list<Entry>::iterator> places_;
};

}  // namespace torch_distinput
