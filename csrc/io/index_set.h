// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/polling.h"
#include "io/record_index.h"

namespace torch_distinput {

using RecordIndexPtr = std::shared_ptr<const RecordIndex>;

/// How far the indexing of a set of files has come.
struct IndexProgress {
  std::uint64_t bytes = 0;  ///< seen so far
  std::uint64_t total = 0;  ///< in all
  std::int64_t files = 0;   ///< that the bytes lie in
  bool done = false;        ///< the last call
};
/// Called in the thread that waits, from a second after the begin on, and once more at the end if it was
/// called before. May throw, which ends the work.
using IndexProgressFunction = std::function<void(const IndexProgress&)>;

/// Replaces what is told about progress everywhere in this process; empty: nothing. Any thread may call.
void set_index_progress(IndexProgressFunction function);

/// The indexes of `files`, in their order: stored ones where they fit, others built by up to `threads`
/// threads (in the caller's thread where that is 0 or there is one file) and stored if the file is large
/// enough to be worth it. A file that occurs several times is indexed once. The caller waits, calls `poll`
/// meanwhile and must hold no lock that it needs. Throws FileError for a file that cannot be indexed.
std::vector<RecordIndexPtr> index_files(const std::vector<std::string>& files, const RecordFormat& format,
                                        int threads, const Poll& poll);

}  // namespace torch_distinput
