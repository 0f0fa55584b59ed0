// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/polling.h"
#include "io/record_index.h"
#include "torch_distinput/indexing_progress.h"

namespace torch_distinput {

/// An index shared by its readers.
using RecordIndexPtr = std::shared_ptr<const RecordIndex>;

/// Called in the waiting thread, repeatedly from one second after the start on, and once more at the end if
/// it was called before. May throw, which ends the indexing with that error.
using IndexingProgressFunction = std::function<void(const IndexingProgress&)>;

/// Sets the function that is called about progress in this process; an empty one turns reports off. Safe from
/// any thread.
void set_indexing_progress(IndexingProgressFunction function);
/// Calls that function, if there is one, and throws what it throws. Safe from any thread.
void tell_indexing_progress(const IndexingProgress& progress);

/// Returns the indexes of `files`, in their order. A stored index is used if it matches the file; others are
/// built by up to `threads` threads (in the caller's thread if at most one of them could work) and stored for
/// files from 256 KiB on, except fixed records. A file that occurs several times is indexed once, and by one
/// process on this host at a time; where indexes are stored, each host makes those of its share of the files
/// first, and the others' only when they were not stored in about the same time. The caller waits and calls
/// `poll` meanwhile; it must hold no lock that `poll` needs. Throws FileError if a file
/// cannot be indexed.
std::vector<RecordIndexPtr> index_files(const std::vector<std::string>& files, const RecordFormat& format,
                                        int threads, const Poll& poll);

}  // namespace torch_distinput
