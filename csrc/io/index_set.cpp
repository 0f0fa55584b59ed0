// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/index_set.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/current_poll.h"
#include "io/file_error.h"
#include "io/host_deal.h"
#include "io/host_share.h"
#include "io/index_file.h"
#include "io/manifest.h"
#include "io/stored_file.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

/// Indexes of smaller files are not stored: reading such a file takes no longer than reading its index.
constexpr std::uint64_t kMinStored = std::uint64_t{256} << 10;
/// Indexes of smaller files are not shared: an entry takes a page of memory.
constexpr std::uint64_t kMinShared = std::uint64_t{4} << 10;
constexpr std::chrono::milliseconds kLimit{1000};
/// How many times a host looks whether others have stored the indexes of their files before it makes them.
constexpr int kLooks = 4;
/// How fast a large file is indexed at most.
constexpr std::uint64_t kBytesPerMillisecond = 500'000;

std::mutex progress_mutex;
IndexingProgressFunction& progress_function() {
  static auto& function = *new IndexingProgressFunction;
  return function;
}

/// Ends the work of one thread after another thread has failed.
struct Cancelled {};

/// A file that is not indexed yet.
struct Pending {
  std::size_t number = 0;  ///< in the list
  bool own = true;         ///< this host makes its index; false: others are given time to store it
  Clock::time_point next;  ///< when to look at it again
  FileStamp stamp = {};
  std::string version = {};
  std::unique_ptr<SharedEntry> entry = nullptr;  ///< unset before the first look, and where it is not shared
  bool begun = false;
  std::uint64_t seen = 0;  ///< of its bytes, as far as they are reported
};

/// The indexing of a list of files, shared by several threads, with the other processes on the host, and with
/// other hosts through the indexes that they store.
class IndexJob {
 public:
  IndexJob(std::vector<std::string> files, const RecordFormat& format)
      : files_(std::move(files)), format_(format), indexes_(files_.size()), errors_(files_.size()) {
    const HostDeal deal = deal_files(files_.size(), host_place());
    for (const std::size_t number : deal.order)
      pending_.push_back({.number = number, .own = pending_.size() < deal.own, .next = begin_});
    own_left_ = deal.own;
  }

  /// Indexes files until none is left. Any number of threads may call it, each once.
  void work() {
    // Where this thread waits for a server, it looks whether others have failed.
    const PollScope scope([this] {
      if (cancelled_) throw Cancelled();
      look_here();
    });
    while (auto file = take_pending()) {
      const std::size_t number = file->number;
      try {
        if (advance(*file)) {
          finish(*file);
        } else {
          put_back(*std::move(file));
        }
      } catch (...) {
        errors_[number] = std::current_exception();
        cancelled_ = true;
      }
    }
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }

  /// Waits until `workers` calls of `work` have returned. Reports progress and calls `poll` meanwhile.
  void wait(int workers, const Poll& poll) {
    const auto look = [&] {
      report(false);
      if (poll) poll();
    };
    try {
      std::unique_lock lock(mutex_);
      wait_polling(changed_, lock, look, [&] { return finished_ == workers; });
    } catch (...) {
      cancelled_ = true;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return finished_ == workers; });
      throw;
    }
  }

  void work_here(const Poll& poll) {
    poll_here_ = &poll;
    work();
    poll_here_ = nullptr;
  }

  std::vector<RecordIndexPtr> take() {
    if (told_) report(true);
    for (const auto& error : errors_) {
      try {
        if (error) std::rethrow_exception(error);
      } catch (const Cancelled&) {
        // The error of another file is the cause; it is thrown in this loop.
      }
    }
    return std::move(indexes_);
  }

 private:
  /// The next file to look at; waits for its time. nullopt if none is left.
  std::optional<Pending> take_pending() {
    std::unique_lock lock(mutex_);
    while (!cancelled_ && !pending_.empty()) {
      const auto now = Clock::now();
      const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& file) {
        return file.next <= now && (file.own || own_left_ == 0);
      });
      if (found != pending_.end()) {
        Pending file = std::move(*found);
        pending_.erase(found);
        return file;
      }
      lock.unlock();
      std::this_thread::sleep_for(kLookAgain);
      look_here();
      lock.lock();
    }
    return std::nullopt;
  }

  void put_back(Pending file) {
    const std::lock_guard lock(mutex_);
    pending_.push_back(std::move(file));
  }

  void finish(const Pending& file) {
    count(file.stamp.size - file.seen);
    const std::lock_guard lock(mutex_);
    if (!file.own || --own_left_ > 0) return;
    own_done_ = Clock::now();
  }

  /// Returns whether the file is indexed now; false: look at it again at `file.next`.
  bool advance(Pending& file) {
    if (!file.begun) begin(file);
    if (!file.entry) return make(file);
    const auto accept = [&](std::span<const char> bytes) {
      auto found = decode_index(bytes, format_, file.stamp);
      if (!found) return false;
      indexes_[file.number] = std::make_shared<const RecordIndex>(*std::move(found));
      return true;
    };
    switch (file.entry->look(most_index_bytes(format_, file.stamp), accept)) {
      case SharedEntry::State::kReady:
        return true;
      case SharedEntry::State::kBusy:
        count_to(file, file.entry->done());
        file.next = Clock::now() + kLookAgain;
        return false;
      case SharedEntry::State::kMine:
      case SharedEntry::State::kAlone:
        break;
    }
    return make(file);
  }

  void begin(Pending& file) {
    const std::string& path = files_[file.number];
    if (!can_index(path)) {
      throw FileError(FileError::Kind::kSystem, path,
                      "only regular files that report their size can be indexed; set `index` to False to "
                      "read this one in order");
    }
    file.begun = true;
    file.stamp = stamp_of(path);
    total_ += file.stamp.size;
    if (format_.kind == RecordKind::kFixedRecords || file.stamp.size < kMinShared) return;
    file.version = version_on_host(path);
    file.entry =
        std::make_unique<SharedEntry>(HostShare::of_process(), index_kind(format_) + " " + file.version);
  }

  bool stores(const Pending& file) const {
    return file.stamp.size >= kMinStored && format_.kind != RecordKind::kFixedRecords;
  }

  /// Finds the index beside the file, or makes it. False where another host is given time to store it.
  bool make(Pending& file) {
    const std::string& path = files_[file.number];
    const File opened(path);
    file.stamp = opened.stamp();
    if (file.entry && opened.version() != file.version) file.entry.reset();  // it changed
    std::optional<RecordIndex> found;
    if (stores(file)) found = load_index(opened, format_, file.stamp);
    if (!found && waits_for_others(file)) return false;
    if (!found) {
      found = build(opened, file);
      if (stores(file)) store_index(path, *found);
    }
    if (file.entry) file.entry->publish(encode_index(*found));
    indexes_[file.number] = std::make_shared<const RecordIndex>(*std::move(found));
    return true;
  }

  bool waits_for_others(Pending& file) {
    if (file.own || !stores(file) || !may_store()) return false;
    // The others have about as many files as this host had, and may have begun later; one may be large.
    const Clock::duration patience =
        own_done_ - begin_ + kLimit + std::chrono::milliseconds(file.stamp.size / kBytesPerMillisecond);
    const auto now = Clock::now();
    if (now >= own_done_ + patience) return false;
    file.entry.reset();
    file.begun = false;
    total_ -= file.stamp.size;
    file.next = now + patience / kLooks;
    return true;
  }

  RecordIndex build(const File& opened, Pending& file) {
    count_to(file, 0);
    try {
      return build_index(opened, format_, [&](std::uint64_t bytes) {
        count_to(file, file.seen + bytes);
        if (opened.is_remote()) downloaded_ += bytes;
        if (file.entry) file.entry->report(file.seen);
        if (cancelled_) throw Cancelled();
        look_here();
      });
    } catch (const FileError&) {
      if (file.entry) file.entry->refuse();
      throw;
    }
  }

  /// For the waiting thread where it does the work itself: reports progress and looks for an interrupt.
  void look_here() {
    if (poll_here_ == nullptr || Clock::now() - looked_ < kPollInterval) return;
    looked_ = Clock::now();
    report(false);
    if (*poll_here_) (*poll_here_)();
  }

  void count(std::uint64_t bytes) { seen_ += bytes; }
  /// Counts the first `bytes` of the file, which a process on the host has read.
  void count_to(Pending& file, std::uint64_t bytes) {
    bytes = std::min(bytes, file.stamp.size);
    count(bytes - file.seen);
    file.seen = bytes;
  }

  void report(bool done) {
    if (!done && Clock::now() - begin_ < kLimit) return;
    told_ = true;
    tell_indexing_progress({.files = static_cast<std::int64_t>(files_.size()),
                            .bytes = static_cast<std::int64_t>(seen_),
                            .total = static_cast<std::int64_t>(total_),
                            .done = done,
                            .downloaded = static_cast<std::int64_t>(downloaded_)});
  }

  const std::vector<std::string> files_;
  const RecordFormat format_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<RecordIndexPtr> indexes_;
  std::vector<std::exception_ptr> errors_;
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<std::uint64_t> total_{0};
  std::atomic<std::uint64_t> downloaded_{0};
  std::atomic<bool> cancelled_{false};
  bool told_ = false;                ///< progress was reported; used by the waiting thread only
  const Poll* poll_here_ = nullptr;  ///< set while the waiting thread does the work itself
  Clock::time_point looked_ = begin_;

  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Pending> pending_;
  std::size_t own_left_ = 0;  ///< files of this host without an index; those of others come after them
  Clock::time_point own_done_ = begin_;  ///< when the last of them was made; then it changes no more
  int finished_ = 0;
};

std::vector<RecordIndexPtr> index_distinct(std::vector<std::string> files, const RecordFormat& format,
                                           int threads, const Poll& poll) {
  const int workers =
      static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(threads), files.size()));
  const auto job = std::make_shared<IndexJob>(std::move(files), format);
  if (workers <= 1) {
    job->work_here(poll);
    return job->take();
  }
  const auto pool = make_thread_pool(workers, "tdi-index");
  for (int i = 0; i < workers; ++i) pool->submit([job] { job->work(); });
  job->wait(workers, poll);
  return job->take();
}

}  // namespace

void set_indexing_progress(IndexingProgressFunction function) {
  const std::lock_guard lock(progress_mutex);
  progress_function() = std::move(function);
}

void tell_indexing_progress(const IndexingProgress& progress) {
  IndexingProgressFunction function;
  {
    const std::lock_guard lock(progress_mutex);
    function = progress_function();
  }
  if (function) function(progress);
}

std::vector<RecordIndexPtr> index_files(const std::vector<std::string>& files, const RecordFormat& format,
                                        int threads, const Poll& poll) {
  std::vector<std::string> distinct;
  std::unordered_map<std::string, std::size_t> numbers;
  for (const std::string& file : files) {
    if (numbers.try_emplace(file, distinct.size()).second) distinct.push_back(file);
  }
  const auto found = index_distinct(std::move(distinct), format, threads, poll);
  forget_manifests();
  std::vector<RecordIndexPtr> indexes;
  indexes.reserve(files.size());
  for (const std::string& file : files) indexes.push_back(found[numbers.at(file)]);
  return indexes;
}

}  // namespace torch_distinput
