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

/// An inner dataset of a parallel interleave: made and read ahead by threads, handed out by the consumer.
class InnerReader {
 public:
  /// `saved.position` is where reading begins.
  InnerReader(SavedInner saved, Element element)
      : saved_(std::move(saved)),
        number_(saved_.number),
        start_(saved_.position),
        element_(std::move(element)) {}
  /// Stands for an error of the input in the place of its next element.
  InnerReader(SavedInner saved, std::exception_ptr input_error)
      : saved_(std::move(saved)), input_failed_(true), done_(true), error_(std::move(input_error)) {}

  /// The consumer's position in it.
  const SavedInner& saved() const { return saved_; }

 private:
  friend class InnerReaders;
  struct Item {
    Element element;
    State after;  ///< the position after it
    std::int64_t bytes;
  };

  // The consumer's.
  SavedInner saved_;
  bool input_failed_ = false;

  // Of the thread that reads (`busy_`).
  std::int64_t number_ = 0;
  State start_;
  Element element_;
  IteratorPtr elements_;

  // Guarded by the mutex of the readers.
  std::deque<Item> ready_;
  std::int64_t ready_bytes_ = 0;
  bool busy_ = false;    ///< a task to read it is queued or runs
  bool opened_ = false;  ///< the function made a dataset
  bool done_ = false;    ///< nothing comes after `ready_` but `error_`
  std::exception_ptr error_;
};
using InnerReaderPtr = std::shared_ptr<InnerReader>;

/// The threads that read inner datasets. One consumer thread at a time uses it.
class InnerReaders {
 public:
  /// `ahead`: elements of a dataset that may be ready at a time.
  InnerReaders(DatasetFunctionPtr function, std::shared_ptr<Executor> threads, std::int64_t ahead);
  /// Waits for the element that each thread is reading.
  ~InnerReaders();
  InnerReaders(const InnerReaders&) = delete;
  InnerReaders& operator=(const InnerReaders&) = delete;

  /// Begins to make and read the dataset.
  void start(const InnerReaderPtr& reader);

  /// What a dataset has for the consumer next.
  struct Taken {
    std::optional<Element> element;
    bool failed = false;  ///< the function failed: `error` may be skipped
    std::exception_ptr error;
    bool opened = false;  ///< the function made a dataset
  };
  /// Waits for it. Looks for interrupts; they lose nothing.
  Taken take(const InnerReaderPtr& reader);
  /// Waits until `take` of one of the readers (null ones do not count) would not wait; returns its index,
  /// the first from `first` on, round the end. REQUIRES: not all null.
  std::size_t wait_any(std::span<const InnerReaderPtr> readers, std::size_t first);

 private:
  struct Shared {
    DatasetFunctionPtr function;
    std::int64_t ahead;

    // Guards the members below and those of every reader that say so.
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
