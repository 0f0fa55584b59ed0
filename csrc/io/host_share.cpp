// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/host_share.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/hash.h"
#include "io/crc32c.h"
#include "io/file_bytes.h"
#include "io/file_lock.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMaxEntry = std::uint64_t{256} << 20;
constexpr std::uint64_t kMaxTotal = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 16;
constexpr std::time_t kMaxAge = 600;  // seconds, where room is needed
constexpr const char* kUsers = "users";
constexpr const char* kRoom = "room";
constexpr std::array<char, 8> kEntryMagic{'T', 'D', 'I', 'S', 'H', 'A', 'R', 'E'};

/// What has become of an entry. `kUnshared`: each process makes it for itself.
enum EntryStage : std::uint64_t { kMaking = 1, kDone = 2, kUnshared = 3 };

/// The head of an entry; its key and its bytes follow.
struct EntryHead {
  std::array<char, 8> magic = kEntryMagic;
  std::uint64_t stage = kMaking;
  std::uint64_t done = 0;  // what the maker has reported
  std::uint64_t key_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t crc = 0;  // of key and bytes
};

/// What the entries of a share take together.
struct ShareRoom {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

/// Whether only this user has access to a file or folder.
bool is_private(const struct ::stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
}

/// Opens the file `name` of the folder, made if need be; -1 unless it is a regular file of this user alone.
int open_private(int folder, const char* name) {
  const int file = ::openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  struct ::stat status;
  if (file < 0) return -1;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && is_private(status)) return file;
  ::close(file);
  return -1;
}

bool is_linked(int file) {
  struct ::stat status;
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

std::uint64_t size_of(int file) {
  struct ::stat status;
  return ::fstat(file, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// Whether a file has a name that SharedEntry gives. Others in the folder are not this library's.
bool is_entry(std::string_view name) {
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Calls `visit` with the name and the status of each entry.
template <class Visit>
void for_each_entry(int folder, Visit visit) {
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ::DIR* const listing = again < 0 ? nullptr : ::fdopendir(again);
  if (listing == nullptr) {
    if (again >= 0) ::close(again);
    return;
  }
  while (const ::dirent* const found = ::readdir(listing)) {
    const std::string_view name = found->d_name;
    struct ::stat status;
    if (!is_entry(name)) continue;
    if (::fstatat(folder, found->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) visit(found->d_name, status);
  }
  ::closedir(listing);
}

void remove_entries(int folder) {
  for_each_entry(folder, [&](const char* name, const struct ::stat&) { ::unlinkat(folder, name, 0); });
  ::unlinkat(folder, kRoom, 0);
}

/// Removes old entries and counts the others.
ShareRoom room_without_old(int folder) {
  ShareRoom room;
  const std::time_t now = std::time(nullptr);
  for_each_entry(folder, [&](const char* name, const struct ::stat& status) {
    if (now - status.st_mtime > kMaxAge) {
      ::unlinkat(folder, name, 0);
    } else {
      ++room.entries;
      room.bytes += static_cast<std::uint64_t>(status.st_size);
    }
  });
  return room;
}

bool half_is_free(int folder, std::uint64_t bytes) {
  struct ::statvfs system;
  if (::fstatvfs(folder, &system) != 0) return false;
  const std::uint64_t half = system.f_blocks / 2 * system.f_frsize;
  return system.f_blocks == 0 || system.f_bavail * system.f_frsize >= half + bytes;
}

bool has_room(const ShareRoom& room, std::uint64_t bytes) {
  return room.entries < kMaxEntries && room.bytes <= kMaxTotal && bytes <= kMaxTotal - room.bytes;
}

/// Counts an entry of `bytes` in `file`, which is locked. False if it does not fit.
bool take_room_of(int folder, int file, std::uint64_t bytes) {
  ShareRoom room;
  if (!read_at(file, bytes_of_object(room), 0)) room = {};
  if (!has_room(room, bytes)) room = room_without_old(folder);
  if (!has_room(room, bytes)) return false;
  room = {room.entries + 1, room.bytes + bytes};
  return write_at(file, bytes_of_object(room), 0);
}

std::string folder_of_process() {
  if (const char* named = std::getenv("TORCH_DISTINPUT_HOST_SHARE")) return named;
  return "/dev/shm/torch_distinput-" + std::to_string(::geteuid());
}

}  // namespace

HostShare::HostShare(std::string path) noexcept : path_(std::move(path)) {
  // The last process of another time may remove the folder between two steps of this: then once more.
  for (int tries = 0; !path_.empty() && tries < 8; ++tries) {
    if (open()) return;
    close();
  }
}

HostShare::~HostShare() {
  leave();
  close();
}

void HostShare::close() noexcept {
  if (users_ >= 0) ::close(std::exchange(users_, -1));
  if (folder_ >= 0) ::close(std::exchange(folder_, -1));
}

HostShare& HostShare::of_process() {
  // Never destroyed: threads may use it until the process ends.
  static HostShare& share = *new HostShare(folder_of_process());
  static const bool leaves = std::atexit([] { share.leave(); }) == 0;
  static_cast<void>(leaves);
  return share;
}

bool HostShare::open() noexcept {
  ::mkdir(path_.c_str(), 0700);
  folder_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct ::stat status;
  if (folder_ < 0 || ::fstat(folder_, &status) != 0 || !is_private(status)) return false;
  users_ = open_private(folder_, kUsers);
  if (users_ < 0) return false;
  if (try_lock(users_, LOCK_EX)) remove_entries(folder_);  // nobody else is there
  return lock_soon(users_, LOCK_SH) && is_linked(users_);
}

void HostShare::leave() noexcept {
  if (users_ < 0) return;
  // A child of this process holds the lock of the same descriptor: only a new descriptor tells whether it is
  // still there. The folder stays open, because other threads may be using it.
  ::close(std::exchange(users_, -1));
  const int users = open_private(folder_, kUsers);
  if (users < 0) return;
  if (try_lock(users, LOCK_EX) && is_linked(users)) {
    remove_entries(folder_);
    ::unlinkat(folder_, kUsers, 0);
    ::rmdir(path_.c_str());
  }
  ::close(users);
}

bool HostShare::take_room(std::uint64_t bytes) noexcept {
  if (bytes > kMaxEntry || !half_is_free(folder_, bytes)) return false;
  const int file = open_private(folder_, kRoom);
  if (file < 0) return false;
  const bool taken = lock_soon(file, LOCK_EX) && take_room_of(folder_, file, bytes);
  ::close(file);
  return taken;
}

SharedEntry::SharedEntry(HostShare& share, std::string key, std::chrono::milliseconds max_silence)
    : share_(share), key_(std::move(key)), max_silence_(max_silence), changed_(Clock::now()) {
  std::array<char, 17> text;
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash_of(key_)));
  name_ = text.data();
}

SharedEntry::~SharedEntry() { close(); }

void SharedEntry::close() noexcept {
  if (file_ < 0) return;
  // Explicitly, because a child that was forked meanwhile has the descriptor, too.
  if (mine_) ::flock(file_, LOCK_UN);
  mine_ = false;
  ::close(std::exchange(file_, -1));
}

bool SharedEntry::open() {
  if (file_ < 0 && share_.folder() >= 0) file_ = open_private(share_.folder(), name_.c_str());
  return file_ >= 0;
}

SharedEntry::State SharedEntry::look(std::uint64_t most, const Accept& accept) {
  if (!open()) return State::kAlone;
  const State seen = read(most, accept);
  if (seen == State::kReady || seen == State::kAlone) return closed(seen);
  if (!try_lock(file_, LOCK_EX)) {
    return errno != EWOULDBLOCK || seen_still() ? State::kAlone : State::kBusy;
  }
  mine_ = true;
  // It may have been published, or removed, before it was locked.
  if (!is_linked(file_)) return closed(State::kBusy);
  const State locked = read(most, accept);
  if (locked == State::kReady || locked == State::kAlone) return closed(locked);
  const EntryHead head;
  const bool begun = ::ftruncate(file_, 0) == 0 && write_at(file_, bytes_of_object(head), 0);
  return begun ? State::kMine : closed(State::kAlone);
}

SharedEntry::State SharedEntry::closed(State state) noexcept {
  close();
  return state;
}

/// kReady, kAlone, or kBusy where there is nothing to believe.
SharedEntry::State SharedEntry::read(std::uint64_t most, const Accept& accept) {
  EntryHead head;
  if (!read_at(file_, bytes_of_object(head), 0) || head.magic != kEntryMagic) return State::kBusy;
  note(head.done);
  if (head.stage == kUnshared) return State::kAlone;
  if (head.stage != kDone || head.key_bytes != key_.size() || head.bytes > most) return State::kBusy;
  // Memory is taken for what is there, whatever the head says.
  if (size_of(file_) != sizeof(head) + head.key_bytes + head.bytes) return State::kBusy;
  std::vector<char> bytes(key_.size() + static_cast<std::size_t>(head.bytes));
  if (!read_at(file_, bytes, sizeof(head)) || crc32c(bytes) != head.crc ||
      std::string_view(bytes.data(), key_.size()) != key_) {
    return State::kBusy;
  }
  return accept(std::span<const char>(bytes).subspan(key_.size())) ? State::kReady : State::kBusy;
}

void SharedEntry::note(std::uint64_t done) noexcept {
  if (done == done_) return;
  done_ = done;
  changed_ = Clock::now();
}

bool SharedEntry::seen_still() const noexcept { return Clock::now() - changed_ >= max_silence_; }

void SharedEntry::report(std::uint64_t done) noexcept {
  if (mine_) write_at(file_, bytes_of_object(done), offsetof(EntryHead, done));
}

void SharedEntry::publish(std::span<const char> bytes) noexcept {
  if (!mine_) return;
  EntryHead head;
  head.stage = kDone;
  head.key_bytes = key_.size();
  head.bytes = bytes.size();
  head.crc = crc32c(bytes, crc32c(key_));
  if (!share_.take_room(sizeof(head) + key_.size() + bytes.size()) || !write_at(file_, key_, sizeof(head)) ||
      !write_at(file_, bytes, sizeof(head) + key_.size())) {
    return refuse();
  }
  write_at(file_, bytes_of_object(head), 0);
  close();
}

void SharedEntry::refuse() noexcept {
  if (!mine_) return;
  EntryHead head;
  head.stage = kUnshared;
  // Those that wait have the file open, and read this; for others there is none. The head needs no new
  // memory.
  write_at(file_, bytes_of_object(head), 0);
  ::unlinkat(share_.folder(), name_.c_str(), 0);
  close();
}

namespace {

/// Lets a thread sleep, and looks for an interrupt, until it is time to look for an entry again.
class Pause {
 public:
  explicit Pause(const Poll& poll) : poll_(poll) {}
  void operator()() {
    std::this_thread::sleep_for(kLookAgain);
    if (!poll_ || Clock::now() - polled_ < kPollInterval) return;
    polled_ = Clock::now();
    poll_();
  }

 private:
  const Poll& poll_;
  Clock::time_point polled_ = Clock::now();
};

}  // namespace

void share_on_host(const std::string& key, std::uint64_t most, const SharedEntry::Accept& accept,
                   const MakeShared& make, const Poll& poll) {
  SharedEntry entry(HostShare::of_process(), key);
  Pause pause(poll);
  SharedEntry::State state;
  while ((state = entry.look(most, accept)) == SharedEntry::State::kBusy) pause();
  if (state == SharedEntry::State::kReady) return;
  entry.publish(make([&](std::uint64_t done) { entry.report(done); }));
}

}  // namespace torch_distinput
