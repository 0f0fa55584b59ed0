// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/slow_reads.h"
#include "remote/object_store.h"
#include "remote/open_object.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {

/// A file system of the user's, for the process that was given it: in a forked child its locks and threads
/// are the parent's, and methods throw ObjectError. Safe from any thread, as far as the file system is.
class UserFileSystem {
 public:
  explicit UserFileSystem(std::shared_ptr<FileSystem> files) : files_(std::move(files)) {}

  ObjectVersion look(const std::string& url) const;
  std::vector<ListedObject> list(const std::string& prefix) const;
  /// Throws also for fewer bytes than were asked for.
  void read(const std::string& url, std::span<char> into, std::uint64_t offset) const;

 private:
  void check_process(const std::string& url) const;

  std::shared_ptr<FileSystem> files_;
  ForkGuard fork_guard_;
};
using UserFileSystemPtr = std::shared_ptr<const UserFileSystem>;

/// An object that a file system of the user's reads, when somebody waits for it.
class UserObject final : public OpenObject {
 public:
  UserObject(UserFileSystemPtr files, std::string url, ObjectVersion version)
      : files_(std::move(files)), url_(std::move(url)), version_(std::move(version)) {}

  const std::string& url() const noexcept override { return url_; }
  const ObjectVersion& version() const noexcept override { return version_; }
  void will_read(std::span<const ByteRange>) override { note_slow_read(); }
  std::size_t read(std::span<char> into, std::uint64_t offset, const Poll& poll) override;

 private:
  UserFileSystemPtr files_;
  std::string url_;
  ObjectVersion version_;
};

}  // namespace torch_distinput
