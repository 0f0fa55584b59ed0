// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/process_owned.h"
#include "ops/functional/interleave_cycle.h"
#include "runtime/executor.h"

namespace torch_distinput {

/// An inner dataset of a parallel interleave: threads make it and read it ahead, the consumer hands out its
/// elements.
class InnerReader {
 public:
  /// Reads the dataset of `element` from `saved.position` on.
  InnerReader(SavedInner saved, Element element)
      : saved_(std::move(saved)),
        number_(saved_.number),
        start_(saved_.position),
        element_(std::move(element)) {}
  /// Represents an error of the input in the place of its next element.
  InnerReader(SavedInner saved, std::exception_ptr input_error)
      : saved_(std::move(saved)), input_failed_(true), done_(true), error_(std::move(input_error)) {}

  /// The consumer's position in the dataset. For the consumer only.
  const SavedInner& saved() const { return saved_; }

 private:
  friend class InnerReaders;
  struct Item {
    Element element;
    State after;  ///< the dataset's state after the element
    std::int64_t bytes;
  };

  // Used by the consumer only.
  SavedInner saved_;
  bool input_failed_ = false;

  // Used by the thread that reads (while `busy_`).
  std::int64_t number_ = 0;
  State start_;
  Element element_;
  IteratorPtr elements_;

  // Guarded by the mutex of InnerReaders.
  std::deque<Item> ready_;
  std::int64_t ready_bytes_ = 0;
  bool busy_ = false;    ///< a task that reads it is queued or runs
  bool opened_ = false;  ///< the function has made a dataset
  bool done_ = false;    ///< after `ready_`, only `error_` is left, if it is set
  std::exception_ptr error_;
};
/// Shared by the consumer and the task that reads it.
using InnerReaderPtr = std::shared_ptr<InnerReader>;

/// The threads that read inner datasets. One consumer thread at a time.
class InnerReaders {
 public:
  /// Reads on `threads`, at most `ahead` ready elements for each dataset.
  InnerReaders(DatasetFunctionPtr function, std::shared_ptr<Executor> threads, std::int64_t ahead);
  /// Stops reading, and waits for the element that each thread is reading.
  ~InnerReaders();
  InnerReaders(const InnerReaders&) = delete;
  InnerReaders& operator=(const InnerReaders&) = delete;

  /// Starts to make and read the dataset of `reader`.
  void start(const InnerReaderPtr& reader);

  /// The next result of a dataset.
  struct Taken {
    std::optional<Element> element;  ///< nullopt at the end, or if `error` is set
    bool failed = false;             ///< the error is the function's, so it may be skipped
    std::exception_ptr error;        ///< null at the end
    bool opened = false;             ///< the function has made a dataset
  };
  /// Waits for the next result of `reader`. Looks for interrupts; they lose no element.
  Taken take(const InnerReaderPtr& reader);
  /// Waits until `take` of one of `readers` (null ones do not count) would not wait, and returns its index:
  /// the first one from `first` on, wrapping around. Looks for interrupts. REQUIRES: not all are null.
  std::size_t wait_any(std::span<const InnerReaderPtr> readers, std::size_t first);

 private:
  struct Shared {
    DatasetFunctionPtr function;
    std::int64_t ahead;

    // Guards the members below, and the members of every InnerReader that say so.
    std::mutex mutex;
    std::condition_variable changed;
    std::int64_t running = 0;
    bool stopped = false;

    bool full(const InnerReader& reader) const;
  };
  static void run(Shared& shared, InnerReader& reader) noexcept;
  static void read(Shared& shared, InnerReader& reader);
  void submit(const InnerReaderPtr& reader);

  ProcessOwned<Shared> shared_;
  std::shared_ptr<Executor> threads_;
};

}  // namespace torch_distinput
