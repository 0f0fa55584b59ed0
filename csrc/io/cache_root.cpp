// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_root.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file_lock.h"
#include "io/own_file.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheFormat = "v1";
constexpr const char* kUsageFile = "usage";
/// Folders of processes that are alone are named so, with the host and the process after it.
constexpr std::string_view kAloneFront = "alone-";

[[noreturn]] void refuse(const std::string& folder, const std::string& problem) {
  throw std::runtime_error(folder + " cannot be used: " + problem);
}

std::string text_of_error(int code) { return std::generic_category().message(code); }

void make_folder(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(fs::path(folder).parent_path(), problem);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) refuse(folder, text_of_error(errno));
}

/// Opens the folder `name` in `parent`, which is made if `make`.
Descriptor open_own_folder(int parent, const std::string& name, const std::string& shown, bool make) {
  if (make && ::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST)
    refuse(shown, text_of_error(errno));
  Descriptor folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct ::stat status;
  if (!folder.open() || ::fstat(folder.number(), &status) != 0) refuse(shown, text_of_error(errno));
  if (!is_own(status)) refuse(shown, "it is not of this user alone");
  return folder;
}

/// Whether a lock of one descriptor keeps others out. Another process may hold it at this moment.
bool has_locks(int folder, const std::string& shown) {
  const Descriptor first = open_cache_file(folder, kUsageFile);
  const Descriptor second = open_cache_file(folder, kUsageFile);
  if (!first.open() || !second.open()) refuse(shown, text_of_error(errno));
  if (!try_lock(first.number(), LOCK_EX)) return errno == EWOULDBLOCK;
  return !try_lock(second.number(), LOCK_EX) && errno == EWOULDBLOCK;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

/// Removes the folders that processes of this host have left which were alone and killed.
void remove_left(const std::string& path) {
  const std::string front = std::string(kAloneFront) + host_name() + "-";
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(path, problem)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(front)) continue;
    ::pid_t process = 0;
    std::from_chars(name.data() + front.size(), name.data() + name.size(), process);
    if (process > 0 && ::kill(process, 0) != 0 && errno == ESRCH) fs::remove_all(entry.path(), problem);
  }
}

std::string new_own_name() {
  return std::string(kAloneFront) + host_name() + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(std::random_device()());
}

}  // namespace

Descriptor open_cache_file(int folder, const std::string& path, int flags) {
  flags |= O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  Descriptor file(::openat(folder, path.c_str(), flags, 0600));
  struct ::stat status;
  if (file.open() && ::fstat(file.number(), &status) == 0 && is_own_file(status)) return file;
  if (file.open()) {
    file = Descriptor();
    errno = EPERM;
  }
  return Descriptor();
}

CacheRootPtr CacheRoot::open(const std::string& folder, bool make) {
  if (make) make_folder(folder);
  const Descriptor named(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!named.open()) refuse(folder, text_of_error(errno));
  const std::string path = folder + "/" + kCacheFormat;
  Descriptor root = open_own_folder(named.number(), kCacheFormat, path, make);
  if (has_locks(root.number(), path)) return CacheRootPtr(new CacheRoot(std::move(root), path, ""));
  remove_left(path);
  const std::string name = new_own_name();
  Descriptor own = open_own_folder(root.number(), name, path + "/" + name, /*make=*/true);
  return CacheRootPtr(new CacheRoot(std::move(own), path, name));
}

CacheRoot::~CacheRoot() { remove_own(); }

void CacheRoot::remove_own() noexcept {
  if (own_name_.empty()) return;
  std::error_code problem;
  fs::remove_all(fs::path(path_) / own_name_, problem);
}

bool CacheRoot::lock_usage(int file) const { return !is_shared() || lock_soon(file, LOCK_EX); }

}  // namespace torch_distinput
