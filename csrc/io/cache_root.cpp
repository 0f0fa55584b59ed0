// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_root.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file_lock.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheFormat = "v1";
constexpr const char* kUsageFile = "usage";
constexpr ::mode_t kOwnFolder = 0700;
constexpr ::mode_t kOwnFile = 0600;
/// What is made in a folder of a group is the group's.
constexpr ::mode_t kGroupFolder = S_ISGID | 0770;
constexpr ::mode_t kGroupFile = 0660;
/// Folders of processes that are alone are named so, with the host and the process after it.
constexpr std::string_view kAloneFront = "alone-";

/// A folder of a group has its mode a moment after it was made.
constexpr int kLooksAtNew = 10;
constexpr std::chrono::milliseconds kUntilNextLook{2};

[[noreturn]] void refuse(const std::string& folder, const std::string& problem) {
  throw std::runtime_error(folder + " cannot be used: " + problem);
}

std::string text_of_error(int code) { return std::generic_category().message(code); }

void make_named(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(fs::path(folder).parent_path(), problem);
  if (::mkdir(folder.c_str(), kOwnFolder) != 0 && errno != EEXIST) refuse(folder, text_of_error(errno));
}

Descriptor open_folder(int parent, const std::string& name) {
  return Descriptor(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

/// A folder in the one that users name.
struct CacheFolder {
  Descriptor folder;
  CacheTrust trust = CacheTrust::kStrangers;
  std::string problem;  ///< why it is not to be written to; "" where it is
};

/// Looks at the folder `name`, which is made if `make`; for the group `group`, unless null.
CacheFolder look_at(int named, const std::string& name, bool make, const ::gid_t* group) {
  int why_not_made = ENOENT;
  const bool is_new = make && ::mkdirat(named, name.c_str(), kOwnFolder) == 0;
  if (make && !is_new) why_not_made = errno;
  if (is_new && group != nullptr) {
    const Descriptor made = open_folder(named, name);
    // Where this user may not give it to the group, it stays this user's.
    if (::fchown(made.number(), static_cast<::uid_t>(-1), *group) == 0) ::fchmod(made.number(), kGroupFolder);
  }
  CacheFolder found{.folder = open_folder(named, name), .problem = {}};
  if (!found.folder.open()) {
    if (errno == ENOENT) errno = why_not_made;
    found.problem =
        why_not_made == EEXIST && errno == EACCES ? "it is of another user" : text_of_error(errno);
    return found;
  }
  found.trust = trust_in(named, found.folder.number());
  if (found.trust == CacheTrust::kOwner) {
    found.problem = "it is of another user";
  } else if (found.trust == CacheTrust::kStrangers) {
    found.problem = "others than its user may have written it";
  } else if (::faccessat(found.folder.number(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    found.problem = text_of_error(errno);
  }
  return found;
}

/// `v1`.
CacheFolder find_shared(int named, bool make) {
  struct ::stat status;
  const bool is_groups = ::fstat(named, &status) == 0 && is_for_group(status);
  CacheFolder found = look_at(named, kCacheFormat, make, is_groups ? &status.st_gid : nullptr);
  for (int looks = 0; make && is_groups && !found.problem.empty() && looks < kLooksAtNew; ++looks) {
    std::this_thread::sleep_for(kUntilNextLook);
    found = look_at(named, kCacheFormat, false, nullptr);
  }
  return found;
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

CacheRoot::CacheRoot(Descriptor folder, std::string path, CacheTrust trust)
    : folder_(std::move(folder)), path_(std::move(path)), trust_(trust) {
  struct ::stat status;
  if (::fstat(number(), &status) == 0) owner_ = status.st_uid;
}

CacheRootPtr CacheRoot::open(const std::string& folder, bool make) {
  if (make) make_named(folder);
  const Descriptor named(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!named.open()) refuse(folder, text_of_error(errno));
  std::string path = folder + "/" + kCacheFormat;
  CacheFolder found = find_shared(named.number(), make);
  std::string note;
  if (!found.problem.empty()) {
    const std::string own = kCacheFormat + ("-" + std::to_string(::geteuid()));
    CacheFolder mine = look_at(named.number(), own, make, nullptr);
    note = path + " cannot be written to: " + found.problem;
    if (mine.trust == CacheTrust::kUser && mine.problem.empty()) {
      note += "; this user has a cache of its own in " + own;
      path = folder + "/" + own;
      found = std::move(mine);
    } else if (found.trust == CacheTrust::kStrangers) {
      refuse(path, found.problem);
    } else {
      note += "; what it does not hold is not kept";
    }
  }
  CacheRootPtr root(new CacheRoot(std::move(found.folder), path, found.trust));
  root->note_ = std::move(note);
  root->is_writable_ = found.problem.empty();
  return !root->is_writable_ || root->has_locks() ? root : root->make_alone();
}

/// Whether locks of one descriptor, of the file and of a range, keep others out. Another process may hold it
/// at this moment.
bool CacheRoot::has_locks() const {
  const Descriptor first = open_file(kUsageFile);
  const Descriptor second = open_file(kUsageFile);
  if (!first.open() || !second.open()) refuse(path_, text_of_error(errno));
  if (!try_lock(first.number(), LOCK_EX)) return errno == EWOULDBLOCK;
  if (try_lock(second.number(), LOCK_EX) || errno != EWOULDBLOCK) return false;
  if (!try_lock_range(first.number(), 0, 0)) return is_locked_range(errno);
  return !try_lock_range(second.number(), 0, 0) && is_locked_range(errno);
}

CacheRootPtr CacheRoot::make_alone() const {
  remove_left(path_);
  const std::string name = new_own_name();
  CacheFolder own = look_at(number(), name, /*make=*/true, nullptr);
  if (own.trust != CacheTrust::kUser || !own.problem.empty()) refuse(path_ + "/" + name, own.problem);
  CacheRootPtr alone(new CacheRoot(std::move(own.folder), path_, own.trust));
  alone->own_name_ = name;
  alone->note_ = note_;
  alone->is_writable_ = true;
  return alone;
}

CacheRoot::~CacheRoot() { remove_own(); }

void CacheRoot::remove_own() noexcept {
  if (own_name_.empty()) return;
  std::error_code problem;
  fs::remove_all(fs::path(path_) / own_name_, problem);
}

bool CacheRoot::lock_usage(int file) const { return !is_shared() || lock_soon(file, LOCK_EX); }

bool CacheRoot::is_new_of_others(int code) const noexcept {
  return code == EACCES && trust_ == CacheTrust::kGroup;
}

Descriptor CacheRoot::open_file(const std::string& path, int flags) const {
  const ::mode_t mode = trust_ == CacheTrust::kGroup ? kGroupFile : kOwnFile;
  flags |= O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (is_writable_ ? O_RDWR | O_CREAT : O_RDONLY);
  Descriptor file(::openat(number(), path.c_str(), flags, mode));
  for (int looks = 0; !file.open() && is_new_of_others(errno) && looks < kLooksAtNew; ++looks) {
    std::this_thread::sleep_for(kUntilNextLook);
    file = Descriptor(::openat(number(), path.c_str(), flags, mode));
  }
  if (!file.open()) return file;
  struct ::stat status;
  if (::fstat(file.number(), &status) != 0) return Descriptor();
  if (!trusts(status)) {
    file = Descriptor();
    errno = EPERM;
    return file;
  }
  // The umask may have taken the group's part of the mode.
  if (trust_ == CacheTrust::kGroup && status.st_uid == ::geteuid() && (status.st_mode & 0777) != mode)
    ::fchmod(file.number(), mode);
  return file;
}

void CacheRoot::make_folder(const std::string& path) const {
  if (trust_ != CacheTrust::kGroup) {
    ::mkdirat(number(), path.c_str(), kOwnFolder);
  } else if (::mkdirat(number(), path.c_str(), kGroupFolder) == 0) {
    ::fchmodat(number(), path.c_str(), kGroupFolder, 0);  // whatever the umask is
  }
}

}  // namespace torch_distinput
