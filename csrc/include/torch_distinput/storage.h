// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch_distinput/api.h"

/// \file
/// Data in object stores. Wherever a source takes the name of a file, it takes a URL too: https://, http://,
/// s3://bucket/key, gs://, az://, hf://. libcurl is loaded when the first one is read.

namespace torch_distinput {

/// How a store is asked: {"endpoint_url": ..., "region": ..., "key": ..., "secret": ...}. docs/remote.md has
/// the names for each kind of store. What is not given comes from the usual variables and files.
using StorageOptions = std::map<std::string, std::string>;
/// Returns credentials for a URL by the names of StorageOptions; "expires" holds the seconds since 1970 until
/// which they are good. Called by threads that read, before they are needed and when they expire.
using CredentialCallback = std::function<StorageOptions(const std::string& url)>;

/// Asked for the credentials of each store whose options, variables and files have none, from now on.
/// Python's package sets one that asks the clouds' own libraries, where these are installed.
TDI_API void set_default_credentials(CredentialCallback credentials);

/// How all objects with the scheme and bucket (or host) of `url` are asked for in this process from now on.
/// Files that are open go on as before. Throws InvalidArgumentError naming an option that is wrong; the value
/// of a secret is in no message.
TDI_API void set_storage_options(const std::string& url, StorageOptions options,
                                 CredentialCallback credentials = {});

/// Objects that this library cannot reach itself, read by the caller's code: each read waits for it, and a
/// forked child must be given its own. Methods are called from several threads.
class TDI_API FileSystem {
 public:
  struct Object {
    std::string url;
    std::uint64_t size = 0;  ///< bytes
    std::string version;     ///< changes with the contents; "" where that is not known
  };
  virtual ~FileSystem() = default;

  /// What is known of an object; nullopt where there is none.
  virtual std::optional<Object> look(const std::string& url) = 0;
  /// Writes `size` bytes of an object from `offset` on to `to`. Returns how many there were; nullopt where
  /// there is no such object.
  virtual std::optional<std::size_t> read(const std::string& url, char* to, std::size_t size,
                                          std::uint64_t offset) = 0;
  /// The objects whose URLs begin with `prefix`.
  virtual std::vector<Object> list(const std::string& prefix) = 0;
};

/// All objects with the scheme and bucket (or host) of `url` are read by `files` in this process from now on.
TDI_API void set_file_system(const std::string& url, std::shared_ptr<FileSystem> files);

/// A folder of this machine where bytes of objects are kept, for all processes of its user that name it, or
/// of its group, if that may write to the folder. What is kept is of one version of its object, and is
/// checked when it is read: a damaged block is asked for again.
struct ObjectCacheOptions {
  std::string folder;  ///< made with mode 0700 if need be; "" for none
  /// What the folder may hold at most; 0: `TDI_CACHE_BYTES`, else what `TDI_CACHE_FREE` leaves.
  std::uint64_t max_bytes = 0;
};
/// Bytes of objects with the scheme and bucket (or host) of `url` are kept there from now on; what has no
/// version (an ETag, a generation) is not kept, nor what a FileSystem reads. Without this, the folder that
/// the variable `TDI_CACHE` names is used, if any. Where a folder cannot be used, reading goes on without it.
/// Throws InvalidArgumentError for a folder that is no absolute path and for variables that are no numbers.
TDI_API void set_object_cache(const std::string& url, const ObjectCacheOptions& options);

/// An object in the cache.
struct CachedObjectInfo {
  std::string url;          ///< without its query
  std::string tag;          ///< its version
  std::uint64_t size = 0;   ///< bytes of the object
  std::uint64_t bytes = 0;  ///< that its files take
  std::int64_t used = 0;    ///< when it was opened last, in seconds since 1970
};
/// What `folder` holds, the object that was used last first. Throws InvalidArgumentError where it is no
/// cache.
TDI_API std::vector<CachedObjectInfo> list_object_cache(const std::string& folder);
/// Removes objects, those that were not used for longest first, until at most `bytes` remain, and what
/// processes that were killed have left. Returns what remains. Throws as `list_object_cache`.
TDI_API std::uint64_t trim_object_cache(const std::string& folder, std::uint64_t bytes);

/// A file of this machine, or an object of a store, that is open for reading at any place. Safe from any
/// thread. Errors: NotFoundError, SystemError, and RemoteError for objects. Waits look for interrupts.
class TDI_API InputFile {
 public:
  /// Opens the file `name`, a path or a URL; of an object, the version that was seen at most ten minutes ago.
  /// `op` begins the messages of errors.
  InputFile(const std::string& name, std::string op);
  ~InputFile();
  InputFile(InputFile&&) noexcept;
  InputFile& operator=(InputFile&&) noexcept;

  std::uint64_t size() const;
  /// Names the file and its version, for comparison.
  std::string version() const;
  /// Writes `size` bytes from `offset` on to `to` and returns how many: fewer only at the end of the file.
  std::size_t read(char* to, std::size_t size, std::uint64_t offset) const;
  /// Asks a store for these bytes (offset and size of each), side by side, without waiting for them.
  void will_read(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) const;

 private:
  std::unique_ptr<class OpenFile> file_;
};

/// Whether `name` is a URL that this library reads.
TDI_API bool names_object(const std::string& name);
/// The URLs of the objects that begin with `prefix`, and their sizes in bytes. Errors as for InputFile.
TDI_API std::vector<std::pair<std::string, std::uint64_t>> list_objects(const std::string& prefix);
/// Makes `contents` the object at `url`. Errors as for InputFile.
TDI_API void write_object(const std::string& url, std::string contents);

}  // namespace torch_distinput
