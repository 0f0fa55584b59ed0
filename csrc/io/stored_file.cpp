// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/stored_file.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/hash.h"
#include "io/file_bytes.h"
#include "io/manifest.h"
#include "io/whole_object.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tdi-index";

std::string hex(std::uint64_t value) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::optional<fs::path> cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && folder[0] == '/') {
    return fs::path(folder) / "torch_distinput";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return std::nullopt;
  return fs::path(home) / ".cache" / "torch_distinput";
}

Descriptor open_file_at(const std::string& path, int flags, ::mode_t mode = 0) {
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode));
}

/// Whether what is stored may be believed: it is a regular file of the user, of the data's owner or of root,
/// and only users who may write to the data may write to it.
bool is_trusted(const struct ::stat& stored, const struct ::stat& data) {
  const bool own = stored.st_uid == ::geteuid() || stored.st_uid == data.st_uid || stored.st_uid == 0;
  const bool group_writes =
      (stored.st_mode & S_IWGRP) != 0 && ((data.st_mode & S_IWGRP) == 0 || stored.st_gid != data.st_gid);
  return S_ISREG(stored.st_mode) && own && !group_writes && (stored.st_mode & S_IWOTH) == 0;
}

/// A name beside `place` that no other thread, process or host uses.
std::string temporary_name(const fs::path& place) {
  std::random_device random;
  return place.string() + "." + hex((std::uint64_t{random()} << 32) | random()) + ".tmp";
}

/// Returns whether `bytes` lie at `place` now, where they will be believed. `data`: the file that they are
/// of.
bool write_whole(const fs::path& place, const struct ::stat& data, std::span<const char> bytes) {
  const std::string temporary = temporary_name(place);
  bool written = false;
  {
    // The kernel applies the umask. Others never write: what they wrote would not be believed.
    const ::mode_t mode = data.st_mode & 0664;
    const Descriptor file = open_file_at(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
    if (file.number() < 0) return false;
    struct ::stat status;
    // Some mounts give every file one mode or owner.
    written =
        write_at(file.number(), bytes, 0) && ::fstat(file.number(), &status) == 0 && is_trusted(status, data);
  }
  if (written && ::rename(temporary.c_str(), place.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}

/// The bytes of the file `path`; nullopt where it cannot be read, may not be believed, or is larger than
/// `most`. Does not wait for a pipe.
std::optional<std::vector<char>> read_whole(const std::string& path, const struct ::stat& data,
                                            std::uint64_t most) {
  const Descriptor file = open_file_at(path, O_RDONLY | O_NONBLOCK);
  struct ::stat status;
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0 || !is_trusted(status, data))
    return std::nullopt;
  if (static_cast<std::uint64_t>(status.st_size) > most) return std::nullopt;
  std::vector<char> bytes(static_cast<std::size_t>(status.st_size));
  if (!read_at(file.number(), bytes, 0)) return std::nullopt;
  return bytes;
}

/// Whether the data are there, and who may write to them: to what is known of an object, this user.
bool look_at_data(const std::string& path, struct ::stat& data) {
  if (!is_url(path)) return ::stat(path.c_str(), &data) == 0;
  data = {};
  data.st_mode = S_IFREG | 0600;
  data.st_uid = ::geteuid();
  data.st_gid = ::getegid();
  return true;
}

}  // namespace

bool may_store() noexcept {
  const char* const value = std::getenv("TORCH_DISTINPUT_WRITE_INDEX");
  return value == nullptr || std::string_view(value) != "0";
}

std::vector<std::string> stored_places(const std::string& path, const std::string& kind) {
  // A query may be a signature, which is another one in the next run.
  const fs::path full = is_url(path) ? fs::path(without_query(path)) : fs::absolute(path);
  const std::string ending = "." + kind + std::string(kSuffix);
  std::vector<std::string> places;
  if (!is_url(path))
    places.push_back((full.parent_path() / ("." + full.filename().string() + ending)).string());
  if (const auto folder = cache_folder())
    places.push_back((*folder / (hex(hash_of(full.string())) + ending)).string());
  return places;
}

std::optional<std::string> stored_url(const std::string& url, const std::string& kind) {
  if (without_query(url) != url) return std::nullopt;
  const std::size_t name = url.rfind('/') + 1;
  return url.substr(0, name) + "." + url.substr(name) + "." + kind + std::string(kSuffix);
}

void load_stored(const std::string& path, const std::string& kind, std::uint64_t most,
                 const std::function<bool(std::span<const char>)>& accept) {
  struct ::stat data;
  if (!look_at_data(path, data)) return;
  for (const std::string& place : stored_places(path, kind)) {
    const auto bytes = read_whole(place, data, most);
    if (bytes && accept(*bytes)) return;
  }
  const auto beside = is_url(path) ? stored_url(path, kind) : std::nullopt;
  if (!beside) return;
  auto bytes = take_from_manifest(path, kind);
  if (!bytes || bytes->size() > most || !accept(*bytes)) {
    bytes = read_whole_object(*beside, most);
    if (!bytes || !accept(*bytes)) return;
  }
  store_beside(path, kind, *bytes);
}

void store_beside(const std::string& path, const std::string& kind, std::span<const char> bytes) noexcept {
  try {
    struct ::stat data;
    if (!may_store() || !look_at_data(path, data)) return;
    for (const fs::path place : stored_places(path, kind)) {
      std::error_code ignored;
      if (place.parent_path().filename() == "torch_distinput")
        fs::create_directories(place.parent_path(), ignored);
      if (write_whole(place, data, bytes)) return;
    }
  } catch (...) {
    // Without it, the next run makes it again; nothing else is lost.
  }
}

}  // namespace torch_distinput
