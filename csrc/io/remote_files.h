// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/of_process.h"
#include "io/disk_cache.h"
#include "io/file_error.h"
#include "io/user_object.h"
#include "remote/object_store.h"
#include "remote/place.h"
#include "remote/remote_object.h"
#include "remote/text_transfer.h"

namespace torch_distinput {

/// The objects of all stores that this process has looked at, and how their stores are asked. A version that
/// was seen is the one that `open` opens: an object that is replaced meanwhile is an error when it is read,
/// and is looked at again after that. Safe from any thread. Methods throw FileError. Waits call the thread's
/// `current_poll`.
class RemoteFiles {
 public:
  static RemoteFiles& of_process();

  /// How objects with the scheme and bucket (or host) of `url` are asked for from now on. `options` and
  /// `callback` are for `make_store`; the option "timeout" is how many seconds a read waits for progress
  /// (120). Throws std::invalid_argument naming an option that is wrong.
  void configure(const std::string& url, StorageOptions options, CredentialCallback callback);
  /// Their bytes are kept in a cache in `folder` from now on, or in none where that is "". `max_bytes`: 0 for
  /// what the environment says. Throws std::invalid_argument for variables that are no numbers.
  void set_cache(const std::string& url, const std::string& folder, std::uint64_t max_bytes);
  /// The caches of these objects, each once.
  std::vector<DiskCache*> caches(std::span<const std::string> urls);
  /// These objects are read by `files` from now on.
  void set_file_system(const std::string& url, std::shared_ptr<FileSystem> files);
  /// Is asked for credentials where no other callback is given and nothing else has any.
  void set_default_credentials(CredentialCallback callback);

  /// The object at `url`.
  OpenObjectPtr open(const std::string& url);
  /// The version that the object at `url` has, seen at most ten minutes ago.
  ObjectVersion version(const std::string& url);
  /// The version that was seen last, however long ago; does not ask.
  std::optional<ObjectVersion> seen(const std::string& url) const;
  /// Whether a file system of the user's reads it.
  bool has_file_system(const std::string& url);
  /// These will be opened or looked at soon: asks their stores now, for all of them side by side. In a job,
  /// waits for what one rank of this host asks for all.
  void will_open(std::span<const std::string> urls);
  /// These will be read whole soon: asks for the bytes of those whose version is known, and for the version
  /// of the others.
  void will_read(std::span<const std::string> urls);
  /// The URLs that match `pattern`, in any order; those without wildcards must be there.
  std::vector<std::string> match(const std::string& pattern);
  /// The objects whose URLs begin with `prefix`.
  std::vector<ListedObject> list(const std::string& prefix);
  /// Makes `contents` the object at `url`.
  void write(const std::string& url, std::string contents);
  /// A version of it was not what was read: look again when it is opened next.
  void forget(const std::string& url);

 private:
  using Clock = std::chrono::steady_clock;
  /// What is known of an object.
  struct Known {
    ObjectVersion version;
    Clock::time_point seen;
    PlacePtr place = nullptr;  ///< where the store has led; null for what was listed
    std::shared_ptr<const std::string> head =
        nullptr;  ///< its first bytes until it is opened; null: not known
    std::weak_ptr<OpenObject> object = {};
  };
  /// Who has the objects of a bucket: a store, and how long to wait for it, or a file system of the user's.
  struct Bucket {
    ObjectStorePtr store = nullptr;
    Nanos patience = 0;
    UserFileSystemPtr files = nullptr;
  };
  /// Objects that their stores were asked about, and whose version nobody has taken yet.
  struct Looks {
    std::mutex mutex;
    std::unordered_map<std::string, std::shared_ptr<VersionTransfer>> running;
  };

  RemoteFiles();
  void set_bucket(const std::string& url, Bucket bucket);
  Bucket bucket(const std::string& url);
  UserFileSystemPtr user_files(const std::string& url);
  DiskCache* cache(const std::string& url);
  DiskCache* cache_in(const std::string& folder, std::uint64_t max_bytes);
  PlacePtr place(const std::string& url);
  std::optional<Known> known(const std::string& url) const;
  Known look(const std::string& url);
  static Known known_by(const ObjectLook& look, PlacePtr place);
  std::shared_ptr<VersionTransfer> running_look(const std::string& url);
  std::vector<std::string> urls_to_look_at_alone(std::span<const std::string> urls);
  std::vector<ListedObject> look_at_all(std::span<const std::string> urls, const Poll& poll);
  void begin_looks(std::span<const std::string> urls);
  void remember(const std::string& url, Known known);
  void remember(std::span<const ListedObject> objects);

  mutable std::mutex mutex_;  ///< no thread holds it while the process forks
  CredentialCallback default_callback_;
  std::map<std::string, Bucket> buckets_;         ///< by scheme and authority
  std::map<std::string, DiskCache*> caches_;      ///< by scheme and authority; null: none
  std::vector<DiskCache*> all_caches_;            ///< never destroyed, as objects may use them to the end
  std::unordered_map<std::string, Known> known_;  ///< by URL
  std::deque<std::string> with_heads_;  ///< those that have a head, and maybe others; the oldest first
  OfProcess<Looks> looks_;
};

/// Throws the FileError that says what `error` says.
[[noreturn]] void throw_file_error(const ObjectError& error);

}  // namespace torch_distinput
