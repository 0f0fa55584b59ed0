// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/index_set.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "io/file_error.h"
#include "io/index_file.h"
#include "runtime/worker_thread.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

/// Indexes of smaller files are not stored: reading such a file takes no longer than reading its index.
constexpr std::uint64_t kMinStored = std::uint64_t{256} << 10;
constexpr std::chrono::milliseconds kLimit{1000};

std::mutex progress_mutex;
IndexingProgressFunction& progress_function() {
  static auto& function = *new IndexingProgressFunction;
  return function;
}

/// Ends the work of one thread after another thread has failed.
struct Cancelled {};

/// The indexing of a list of files, shared by several threads.
class IndexJob {
 public:
  IndexJob(std::vector<std::string> files, const RecordFormat& format)
      : files_(std::move(files)), format_(format), indexes_(files_.size()), errors_(files_.size()) {}

  /// Indexes files until none is left. Any number of threads may call it, each once.
  void work() {
    for (std::size_t number; (number = next_.fetch_add(1)) < files_.size();) {
      try {
        if (!cancelled_) indexes_[number] = index(files_[number]);
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
  RecordIndexPtr index(const std::string& path) {
    if (!can_index(path)) {
      throw FileError(FileError::Kind::kSystem, path,
                      "only regular files that report their size can be indexed; set `index` to False to "
                      "read this one in order");
    }
    const File file(path);
    const FileStamp stamp = file.stamp();
    total_ += stamp.size;
    const bool stores = stamp.size >= kMinStored && format_.kind != RecordKind::kFixedRecords;
    if (stores) {
      if (auto stored = load_index(file, format_, stamp)) {
        seen_ += stamp.size;
        return std::make_shared<const RecordIndex>(*std::move(stored));
      }
    }
    auto built = std::make_shared<const RecordIndex>(build_index(file, format_, [this](std::uint64_t bytes) {
      seen_ += bytes;
      if (cancelled_) throw Cancelled();
      if (poll_here_ == nullptr || Clock::now() - looked_ < kPollInterval) return;
      looked_ = Clock::now();
      report(false);
      if (*poll_here_) (*poll_here_)();
    }));
    if (stores) store_index(path, *built);
    return built;
  }

  void report(bool done) {
    if (!done && Clock::now() - begin_ < kLimit) return;
    IndexingProgressFunction function;
    {
      const std::lock_guard lock(progress_mutex);
      function = progress_function();
    }
    told_ = true;
    if (function) {
      function({.files = static_cast<std::int64_t>(files_.size()),
                .bytes = static_cast<std::int64_t>(seen_),
                .total = static_cast<std::int64_t>(total_),
                .done = done});
    }
  }

  const std::vector<std::string> files_;
  const RecordFormat format_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<RecordIndexPtr> indexes_;
  std::vector<std::exception_ptr> errors_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> seen_{0};
  std::atomic<std::uint64_t> total_{0};
  std::atomic<bool> cancelled_{false};
  bool told_ = false;                ///< progress was reported; used by the waiting thread only
  const Poll* poll_here_ = nullptr;  ///< set while the waiting thread does the work itself
  Clock::time_point looked_ = begin_;

  std::mutex mutex_;
  std::condition_variable changed_;
  int finished_ = 0;  ///< guarded by mutex_
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

std::vector<RecordIndexPtr> index_files(const std::vector<std::string>& files, const RecordFormat& format,
                                        int threads, const Poll& poll) {
  std::vector<std::string> distinct;
  std::unordered_map<std::string, std::size_t> numbers;
  for (const std::string& file : files) {
    if (numbers.try_emplace(file, distinct.size()).second) distinct.push_back(file);
  }
  const auto found = index_distinct(std::move(distinct), format, threads, poll);
  std::vector<RecordIndexPtr> indexes;
  indexes.reserve(files.size());
  for (const std::string& file : files) indexes.push_back(found[numbers.at(file)]);
  return indexes;
}

}  // namespace torch_distinput
