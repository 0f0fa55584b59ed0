// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/descriptor.h"

namespace torch_distinput {

/// The open folder of a cache: `v1` in the folder that users name, or a folder in it for this process alone,
/// where the file system has no locks between processes. For the process that opened it.
class CacheRoot {
 public:
  /// Opens the cache in `folder`, which is made if need be. `made`: where there is none, it is made, with
  /// mode 0700. Throws std::runtime_error saying why it cannot be used: it is of another user, others may
  /// write to it, or the system refuses.
  static std::shared_ptr<CacheRoot> open(const std::string& folder, bool make);
  /// Removes the folder if it was for this process alone.
  ~CacheRoot();
  CacheRoot(const CacheRoot&) = delete;
  CacheRoot& operator=(const CacheRoot&) = delete;

  /// Its descriptor.
  int number() const noexcept { return folder_.number(); }
  /// Whether other processes use it, too.
  bool is_shared() const noexcept { return own_name_.empty(); }
  /// Locks what processes lock for moments; false where that takes too long. Between threads it is the mutex
  /// that counts, which the caller holds.
  bool lock_usage(int file) const;
  std::mutex& mutex() const noexcept { return mutex_; }

  /// At the end of the process.
  void remove_own() noexcept;

 private:
  CacheRoot(Descriptor folder, std::string path, std::string own_name)
      : folder_(std::move(folder)), path_(std::move(path)), own_name_(std::move(own_name)) {}

  Descriptor folder_;
  std::string path_;      ///< of `v1`
  std::string own_name_;  ///< of the folder for this process alone; "" where there is none
  mutable std::mutex mutex_;
};
using CacheRootPtr = std::shared_ptr<CacheRoot>;

/// A file of the cache, opened for reading and writing; made with mode 0600 if need be. Not open, with the
/// reason in errno, unless it is a regular file of this user. `flags`: more of them for `open`.
Descriptor open_cache_file(int folder, const std::string& path, int flags = 0);

}  // namespace torch_distinput
