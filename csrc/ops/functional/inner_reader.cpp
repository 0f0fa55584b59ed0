// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/inner_reader.h"

#include <utility>

#include "base/polling.h"
#include "base/stage.h"
#include "core/stop_scope.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// The most bytes of elements of one dataset that are ready; one element is always allowed.
constexpr std::int64_t kMaxReadyBytes = std::int64_t{1} << 20;

}  // namespace

InnerReaders::InnerReaders(DatasetFunctionPtr function, std::shared_ptr<Executor> threads, std::int64_t ahead)
    : shared_(std::make_shared<Shared>()), threads_(std::move(threads)) {
  shared_->function = std::move(function);
  shared_->ahead = ahead;
}

InnerReaders::~InnerReaders() {
  if (shared_.inherited()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->stopped = true;
  shared_->changed.wait(lock, [this] { return shared_->running == 0; });
  // A queued task may keep `shared_` alive for long; the user's function must be released now.
  shared_->function = nullptr;
}

bool InnerReaders::Shared::full(const InnerReader& reader) const {
  return static_cast<std::int64_t>(reader.ready_.size()) >= ahead ||
         (!reader.ready_.empty() && reader.ready_bytes_ >= kMaxReadyBytes);
}

void InnerReaders::start(const InnerReaderPtr& reader) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (reader->done_) return;
    reader->busy_ = true;
  }
  submit(reader);
}

void InnerReaders::submit(const InnerReaderPtr& reader) {
  threads_->submit([shared = shared_.share(), reader] {
    {
      const std::lock_guard lock(shared->mutex);
      if (shared->stopped) return;
      ++shared->running;
    }
    run(*shared, *reader);
  });
}

void InnerReaders::run(Shared& shared, InnerReader& reader) noexcept {
  std::exception_ptr error;
  const StopScope stop([&shared] {
    const std::lock_guard lock(shared.mutex);
    return shared.stopped;
  });
  StageScope work(Stage::kBuild);
  try {
    read(shared, reader);
  } catch (...) {
    error = std::current_exception();
  }
  work.end();
  const std::lock_guard lock(shared.mutex);
  if (error != nullptr) {
    reader.error_ = std::move(error);
    reader.done_ = true;
  }
  reader.busy_ = false;
  --shared.running;
  shared.changed.notify_all();
}

void InnerReaders::read(Shared& shared, InnerReader& reader) {
  if (reader.elements_ == nullptr) {
    reader.elements_ = shared.function->open(std::move(reader.element_), reader.number_);
    {
      const std::lock_guard lock(shared.mutex);
      reader.opened_ = true;
    }
    if (!reader.start_.is_null()) reader.elements_->load(reader.start_);
  }
  for (;;) {
    std::optional<Element> element = reader.elements_->next();
    State after = element ? reader.elements_->save() : State();
    const std::int64_t bytes = element ? element->bytes() : 0;
    const std::lock_guard lock(shared.mutex);
    reader.done_ = !element;
    if (element) {
      reader.ready_.push_back({std::move(*element), std::move(after), bytes});
      reader.ready_bytes_ += bytes;
    }
    shared.changed.notify_all();
    if (shared.stopped || reader.done_ || shared.full(reader)) return;
  }
}

InnerReaders::Taken InnerReaders::take(const InnerReaderPtr& reader) {
  std::unique_lock lock(shared_->mutex);
  wait_polling(shared_->changed, lock, interrupt_check(),
               [&] { return !reader->ready_.empty() || reader->done_; });
  if (reader->ready_.empty()) {
    return {std::nullopt, !reader->opened_ && !reader->input_failed_, reader->error_, reader->opened_};
  }
  InnerReader::Item item = std::move(reader->ready_.front());
  reader->ready_.pop_front();
  reader->ready_bytes_ -= item.bytes;
  reader->saved_.position = std::move(item.after);
  // Refill only when half of the elements are used, so that a thread is woken once for several elements.
  const bool low = static_cast<std::int64_t>(reader->ready_.size()) <= shared_->ahead / 2;
  const bool refill = !reader->busy_ && !reader->done_ && low;
  reader->busy_ = reader->busy_ || refill;
  lock.unlock();
  if (refill) submit(reader);
  return {std::move(item.element), false, nullptr, true};
}

std::size_t InnerReaders::wait_any(std::span<const InnerReaderPtr> readers, std::size_t first) {
  std::size_t found = 0;
  const auto find = [&] {
    for (std::size_t i = 0; i < readers.size(); ++i) {
      found = (first + i) % readers.size();
      const InnerReaderPtr& reader = readers[found];
      if (reader != nullptr && (!reader->ready_.empty() || reader->done_)) return true;
    }
    return false;
  };
  std::unique_lock lock(shared_->mutex);
  wait_polling(shared_->changed, lock, interrupt_check(), find);
  return found;
}

}  // namespace torch_distinput
