// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/polling.h"
#include "torch_distinput/api.h"

/// \file
/// What one process has made of an expensive read, for the other processes of its user on its host. Sources
/// are made before any process group is known, so this needs none. All functions are safe from any thread.

namespace torch_distinput {

/// A folder in memory that processes of one user share. It holds one file for each entry. Where it cannot be
/// used, each process works alone: nothing here throws, except what callers' functions throw.
///
/// Its files live as long as a process that has opened it, or a child of one; the last one removes them at
/// its end. What processes that were killed have left, the next one removes that opens the folder and is
/// alone.
class HostShare {
 public:
  /// Opens the folder `path` and makes it if need be, with mode 0700. It is not used unless it is a folder of
  /// this user that no other user has access to. An empty path stands for a share that is never used.
  explicit HostShare(std::string path) noexcept;
  ~HostShare();
  HostShare(const HostShare&) = delete;
  HostShare& operator=(const HostShare&) = delete;

  /// The share of this process: the folder `TORCH_DISTINPUT_HOST_SHARE` of the environment (none if that is
  /// empty), else `/dev/shm/torch_distinput-<user id>`. It is opened by the first call.
  static HostShare& of_process();

  /// The descriptor of the folder; -1 where it cannot be used.
  int folder() const noexcept { return folder_; }
  /// Takes room for an entry of `bytes`, which is returned at the end of the last process. False where there
  /// is none: entries have at most 256 MiB, all of them 1 GiB and 65,536 files, and half of the file system
  /// stays free. Where these are used up, entries of more than 10 minutes of age are removed.
  bool take_room(std::uint64_t bytes) noexcept;

  /// Gives the folder up; the last process removes it. The destructor does the same.
  void leave() noexcept;

 private:
  bool open() noexcept;
  void close() noexcept;

  std::string path_;
  int folder_ = -1;
  int users_ = -1;  ///< a file that each process with the folder holds a shared lock on
};

/// How long the maker of an entry may stand still until those that wait for it work alone.
inline constexpr std::chrono::milliseconds kMaxSilence{15'000};

/// The entry of a key in a share: made by one process under a lock that the kernel releases when it ends, and
/// read by the others. One thread at a time.
class SharedEntry {
 public:
  /// What the holder of the entry has to do.
  enum class State {
    kReady,  ///< nothing: the bytes were accepted
    kMine,   ///< make the bytes and `publish` them; no other process makes them meanwhile
    kBusy,   ///< look again later: another process makes them
    kAlone,  ///< make the bytes for itself: they cannot be shared, or their maker stands still
  };
  /// Shown the bytes of an entry, which may be anything. False: they are not believed, and are made again.
  using Accept = std::function<bool(std::span<const char>)>;

  /// `key` names what the bytes depend on: what was read, in which version, and how. REQUIRES: `share` lives.
  SharedEntry(HostShare& share, std::string key, std::chrono::milliseconds max_silence = kMaxSilence);
  /// Lets another process make the entry, unless it was published.
  ~SharedEntry();
  SharedEntry(const SharedEntry&) = delete;
  SharedEntry& operator=(const SharedEntry&) = delete;

  /// Looks for the entry without waiting. Shows `accept` complete bytes of this key, at most `most`.
  State look(std::uint64_t most, const Accept& accept);
  /// For its maker: shows the others that it goes on. `done` grows, for instance the bytes read so far.
  void report(std::uint64_t done) noexcept;
  /// What the maker has reported, at the last look that found kBusy.
  std::uint64_t done() const noexcept { return done_; }
  /// For its maker: gives `bytes` to the others. Where there is no room, they work alone. Without kMine
  /// before it does nothing.
  void publish(std::span<const char> bytes) noexcept;
  /// For its maker, who cannot make the bytes: all find that out for themselves, at once.
  void refuse() noexcept;

 private:
  bool open();
  void close() noexcept;
  State closed(State state) noexcept;
  State read(std::uint64_t most, const Accept& accept);
  void note(std::uint64_t done) noexcept;
  bool seen_still() const noexcept;

  HostShare& share_;
  std::string key_;
  std::string name_;
  std::chrono::milliseconds max_silence_;
  int file_ = -1;
  bool mine_ = false;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point changed_;  ///< when `done_` was last seen to change
};

/// How long a thread waits until it looks for an entry again.
inline constexpr std::chrono::milliseconds kLookAgain{5};

/// Makes the bytes of an entry. Calls its argument with a number that grows while it goes on.
using MakeShared = std::function<std::vector<char>(const std::function<void(std::uint64_t)>& report)>;

/// Returns once `accept` has accepted the bytes of `key` that another process on the host has made, or else
/// once `make` has made them, which one process at a time does; they are then the others'. Waits for that
/// process, and calls `poll` meanwhile; throws what the functions throw.
TDI_API void share_on_host(const std::string& key, std::uint64_t most, const SharedEntry::Accept& accept,
                           const MakeShared& make, const Poll& poll);

}  // namespace torch_distinput
