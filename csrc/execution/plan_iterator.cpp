// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/plan_iterator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "core/interrupt_watch.h"
#include "core/state_reader.h"
#include "core/stop_flag.h"
#include "execution/read_ahead.h"
#include "execution/remote_run.h"
#include "execution/sampled.h"
#include "runtime/ordered_producer.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Consecutive elements; `error` is that of the one after them.
struct Chunk {
  std::vector<Element> elements;
  std::exception_ptr error;
};

/// Fetches [begin, end). Where that fails, and not by an interrupt, fetches one by one up to the element that
/// fails.
Chunk fetch_chunk(const Plan& plan, std::int64_t begin, std::int64_t end) {
  const InterruptWatch watch;
  std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  Chunk chunk;
  try {
    chunk.elements = plan.fetch(positions);
  } catch (...) {
    chunk.error = std::current_exception();
  }
  if (!chunk.error || end - begin == 1 || watch.interrupt()) return chunk;
  Chunk singles;
  for (std::int64_t position = begin; position < end && !singles.error; ++position) {
    Chunk single = fetch_chunk(plan, position, position + 1);
    std::move(single.elements.begin(), single.elements.end(), std::back_inserter(singles.elements));
    singles.error = std::move(single.error);
  }
  return singles;
}

/// `fetch_chunk` for a plan that is remote where `remote` is not null.
Chunk fetch_chunk(const Plan& plan, std::int64_t begin, std::int64_t end, RemoteRun* remote) {
  if (remote == nullptr) return fetch_chunk(plan, begin, end);
  return remote->run([&]() -> Chunk {
    try {
      remote->announcer.begin(begin, end - begin);
    } catch (...) {
      return {{}, std::current_exception()};
    }
    Chunk chunk = fetch_chunk(plan, begin, end);
    std::int64_t bytes = 0;
    for (const Element& element : chunk.elements) bytes += element.bytes();
    remote->announcer.measure(std::ssize(chunk.elements), bytes);
    return chunk;
  });
}

class PlanIterator final : public Iterator {
 public:
  PlanIterator(PlanPtr plan, std::shared_ptr<const ExecutionContext> execution)
      : plan_(std::move(plan)),
        execution_(std::move(execution)),
        rows_known_(plan_->size() > 0 && plan_->rows(0) != kUnknownRows),
        is_remote_(plan_->traits().remote) {}
  ~PlanIterator() override { stop_reading(); }

  std::optional<Element> next() override {
    if (ready_.size() == used_) refill();
    if (error_ && ready_.size() == used_) std::rethrow_exception(error_);
    if (ready_.size() == used_) return std::nullopt;
    Element element = std::move(ready_[used_++]);
    if (rows_known_) row_ = cut_ ? plan_->rows_before(position_ + 1) : row_ + plan_->rows(position_);
    cut_.reset();
    ++position_;
    return element;
  }

  State save() const override {
    State state;
    state.set("path", "random access");
    state.set("position", position_);
    if (rows_known_) state.set("row", row_);
    if (const auto counts = plan_->sampled(position_); !counts.empty()) state.set(kSampled, list_of(counts));
    return state;
  }

  void load(const State& state) override {
    const StateReader saved(state, "state");
    TORCH_CHECK_VALUE(
        saved.has("path") && saved.at("path") == State("random access"),
        "state: saved on the sequential path, but this pipeline runs on the random-access path.");
    const bool by_row = rows_known_ && saved.has("row");
    // The position may count batches of another size, so only the row tells where to go on.
    const std::int64_t position = saved.count("position", by_row ? kMaxCounted : most_elements());
    const std::int64_t row = by_row ? saved.count("row") : 0;
    if (by_row && plan_->size() == kEndless) check_rows_of_endless("state", position, row);
    stop();
    if (by_row) return go_to_row(position, row);
    position_ = position;
  }

  const Plan& plan() const { return *plan_; }

  void begin_reading() {
    if (!is_remote_ || remote_ || cut_ || position_ >= plan_->size()) return;
    remote_ = begin_remote();
    if (!plan_->traits().runs_user_code) read_ahead_at_once();
    if (!producer_) remote_->run([&] { remote_->announcer.begin(position_, 0); });
  }

 private:
  void stop() {
    stop_reading();
    claim_.reset();
    first_.reset();
    ready_.clear();
    used_ = 0;
    error_ = nullptr;
    cut_.reset();
    interrupted_ = false;
  }

  /// Does not wait for a network.
  void stop_reading() {
    if (remote_) remote_->stop.set();
    if (stop_) stop_->set();
    producer_.reset();
    stop_.reset();
    remote_.reset();
    waits_ = 0;
  }

  std::int64_t most_elements() const { return std::min(plan_->size(), kMaxCounted); }

  void go_to_row(std::int64_t position, std::int64_t row) {
    row_ = row;
    position_ = position;
    if (position <= plan_->size() && plan_->rows_before(position) == row) return;
    // Saved with batches of another size.
    position_ = element_of_row(row);
    const std::int64_t first = plan_->rows_before(position_);
    if (position_ < plan_->size() && first < row)
      cut_ = Segment{position_, row - first, plan_->rows(position_)};
  }

  /// The last element that starts at or before `row`; the plan's size when `row` is after all rows.
  std::int64_t element_of_row(std::int64_t row) const {
    std::int64_t high = 1;
    while (high < plan_->size() && plan_->rows_before(high) <= row)
      high = high > plan_->size() / 2 ? plan_->size() : 2 * high;
    if (plan_->rows_before(high) <= row) return high;
    std::int64_t low = 0;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (plan_->rows_before(middle) <= row ? low : high) = middle;
    }
    return low;
  }

  void refill() {
    if (error_ || position_ >= plan_->size()) return;
    if (std::exchange(interrupted_, false)) stop_reading();
    if (is_remote_ && !remote_) remote_ = begin_remote();
    const InterruptWatch watch;
    Chunk chunk;
    if (cut_) {
      chunk = take_cut();
    } else {
      read_ahead_at_once();
      chunk = producer_ ? take_made() : begin();
    }
    if (watch.interrupt()) {
      // A function that this thread ran was interrupted. What was made is made again, from this iterator's
      // position.
      interrupted_ = true;
      std::rethrow_exception(watch.interrupt());
    }
    ready_ = std::move(chunk.elements);
    error_ = std::move(chunk.error);
    used_ = 0;
  }

  /// Announces nothing yet. What was announced before an interrupt is kept.
  std::shared_ptr<RemoteRun> begin_remote() {
    if (!claim_) claim_ = std::make_shared<AheadClaim>();
    const std::int64_t horizon = announced_bytes(plan_->traits(), execution_->options);
    const std::int64_t first = cut_ ? position_ + 1 : position_;
    return std::shared_ptr<RemoteRun>(new RemoteRun{
        {announce_elements(plan_), first, plan_->size(), horizon, plan_->least_bytes()}, claim_});
  }

  Chunk take_cut() const {
    const auto take = [&] { return plan_->take_rows({&*cut_, 1}); };
    Chunk chunk;
    try {
      chunk.elements.push_back(!remote_ ? take() : remote_->run([&] {
        plan_->will_take({&*cut_, 1});
        remote_->announcer.begin(position_ + 1, 0);
        return take();
      }));
    } catch (...) {
      chunk.error = std::current_exception();
    }
    return chunk;
  }

  /// Large elements, and those that come over a network, are read ahead from the first on, unless their bytes
  /// are bounded: then one is measured, because only a part of its bytes may be known.
  void read_ahead_at_once() {
    if (producer_ || first_ || execution_->options.prefetch_bytes) return;
    if (!is_remote_ && !is_large(plan_->least_bytes())) return;
    const Sample sample{plan_->least_bytes(), {}};
    read_ahead(position_, choose_read_ahead(plan_->traits(), *execution_, sample));
  }

  Chunk take_made() {
    if (remote_ && remote_->was_slow) producer_->widen();
    std::optional<Chunk> made = producer_->next(interrupt_check());
    count_waits();
    return made ? std::move(*made) : Chunk{};
  }

  /// Makes elements in this thread until it is known how to read ahead. The first element is often far slower
  /// than the others (new memory, cold caches), so it decides alone only where it took more than 5 ms
  /// (`is_quick`).
  Chunk begin() {
    const PlanTraits traits = plan_->traits();
    const bool tiny = first_ && is_tiny(traits, *execution_, *first_);
    const std::int64_t count = tiny ? std::min(kTinyChunk, plan_->size() - position_) : 1;
    const auto start = std::chrono::steady_clock::now();
    Chunk chunk = fetch_chunk(*plan_, position_, position_ + count, remote_.get());
    if (chunk.error) return chunk;
    const Sample sample{chunk.elements.front().bytes(), (std::chrono::steady_clock::now() - start) / count};
    const bool is_first = !std::exchange(first_, sample).has_value();
    if (is_first && is_quick(traits, sample)) return chunk;
    read_ahead(position_ + count, choose_read_ahead(traits, *execution_, sample));
    return chunk;
  }

  void read_ahead(std::int64_t origin, const ReadAhead& ahead) {
    const std::int64_t left = plan_->size() - origin;
    // Tells whether the first elements have to be waited for.
    if (ahead.narrow_tasks > 0)
      remote_->run([&] { remote_->announcer.begin(origin, std::min(ahead.chunk, left)); });
    stop_ = std::make_shared<StopFlag>();
    auto make = [plan = plan_, remote = remote_, stop = stop_, origin, left,
                 chunk = ahead.chunk](std::int64_t index) {
      const std::int64_t first = index * chunk;
      const auto fetch = [&] {
        return fetch_chunk(*plan, origin + first, origin + std::min(first + chunk, left), remote.get());
      };
      return remote ? fetch() : stop->run(fetch);
    };
    const std::int64_t chunks = left / ahead.chunk + (left % ahead.chunk != 0 ? 1 : 0);
    producer_.emplace(std::move(make), 0, chunks, ahead.executor, ahead.options());
  }

  void count_waits() {
    const std::int64_t waits = producer_->waits();
    if (waits != waits_) execution_->counters->waits.add(waits - std::exchange(waits_, waits));
  }

  PlanPtr plan_;
  std::shared_ptr<const ExecutionContext> execution_;
  bool rows_known_;
  bool is_remote_;

  std::int64_t position_ = 0;   ///< of the element that `next` returns
  std::int64_t row_ = 0;        ///< rows before it, where known
  std::optional<Segment> cut_;  ///< the rows that are left of that element, where these are not all
  std::vector<Element> ready_;
  std::size_t used_ = 0;  ///< how many of `ready_` were handed out
  std::exception_ptr error_;
  bool interrupted_ = false;  ///< `producer_` is not at this iterator's position
  std::int64_t waits_ = 0;
  std::optional<Sample> first_;                     ///< what the first element cost
  std::shared_ptr<AheadClaim> claim_;               ///< null before the first `next`, and for local plans
  std::shared_ptr<RemoteRun> remote_;               ///< null before the first `next`, and for local plans
  std::shared_ptr<StopFlag> stop_;                  ///< of the waits of `producer_`'s threads
  std::optional<OrderedProducer<Chunk>> producer_;  ///< none before the first `next`
};

}  // namespace

IteratorPtr make_plan_iterator(PlanPtr plan, std::shared_ptr<const ExecutionContext> execution) {
  return std::make_unique<PlanIterator>(std::move(plan), std::move(execution));
}

const Plan& plan_of(const Iterator& iterator) { return static_cast<const PlanIterator&>(iterator).plan(); }

void begin_reading(Iterator& iterator) { static_cast<PlanIterator&>(iterator).begin_reading(); }

}  // namespace torch_distinput
