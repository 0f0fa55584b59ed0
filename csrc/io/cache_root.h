// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "base/descriptor.h"
#include "io/cache_trust.h"

namespace torch_distinput {

/// The open folder of a cache, for the process that opened it: `v1` in the folder that users name, which
/// belongs to the user who has made it, or to the group that may write to the named folder. Where `v1` is of
/// another user, this one has `v1-<number of the user>`, and where it has not, reads `v1` if it is trusted.
/// Where the file system has no locks between processes, it is a folder in there for this process alone.
class CacheRoot {
 public:
  /// Opens the cache in `folder`, which is made if need be. `make`: where there is none, it is made, with
  /// mode 0700, or 2770 for a group. Throws std::runtime_error saying why it cannot be used: strangers may
  /// have written it, or the system refuses.
  static std::shared_ptr<CacheRoot> open(const std::string& folder, bool make);
  /// Removes the folder if it was for this process alone.
  ~CacheRoot();
  CacheRoot(const CacheRoot&) = delete;
  CacheRoot& operator=(const CacheRoot&) = delete;

  /// Its descriptor.
  int number() const noexcept { return folder_.number(); }
  /// Whether other processes use it, too.
  bool is_shared() const noexcept { return own_name_.empty(); }
  bool is_writable() const noexcept { return is_writable_; }
  /// What users should know of it: whose it is not; "" where there is nothing.
  const std::string& note() const noexcept { return note_; }
  /// Whether a file in it may be believed, if its checksums are right.
  bool trusts(const struct ::stat& file) const noexcept { return is_trusted_file(trust_, owner_, file); }
  /// A file of the cache, opened for reading, and for writing where the cache is; made if need be, with mode
  /// 0600, or 0660 for a group. Not open, with the reason in errno, unless it is trusted. `flags`: more of
  /// them for `open`.
  Descriptor open_file(const std::string& path, int flags = 0) const;
  /// Makes a folder in it, if need be.
  void make_folder(const std::string& path) const;
  /// Whether errno `code` of `open_file` may be because another user's process has just made the file, and is
  /// about to give it its mode.
  bool is_new_of_others(int code) const noexcept;
  /// Locks what processes lock for moments; false where that takes too long. Between threads it is the mutex
  /// that counts, which the caller holds.
  bool lock_usage(int file) const;
  std::mutex& mutex() const noexcept { return mutex_; }

  /// At the end of the process.
  void remove_own() noexcept;

 private:
  CacheRoot(Descriptor folder, std::string path, CacheTrust trust);
  bool has_locks() const;
  std::shared_ptr<CacheRoot> make_alone() const;

  Descriptor folder_;
  std::string path_;      ///< of the folder that processes share
  std::string own_name_;  ///< of the folder for this process alone; "" where there is none
  CacheTrust trust_;
  ::uid_t owner_ = 0;
  bool is_writable_ = false;
  std::string note_;
  mutable std::mutex mutex_;
};
using CacheRootPtr = std::shared_ptr<CacheRoot>;

}  // namespace torch_distinput
