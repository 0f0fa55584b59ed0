// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "device/transfer/copy_engine.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// For each actor (host or stream), how many of its actions happen before a point.
class VectorClock {
 public:
  void tick(std::size_t actor) { ++at(actor); }
  void join(const VectorClock& other) {
    for (std::size_t i = 0; i < other.counts_.size(); ++i) at(i) = std::max(at(i), other.counts_[i]);
  }
  int& at(std::size_t actor) {
    if (counts_.size() <= actor) counts_.resize(actor + 1);
    return counts_[actor];
  }
  int operator[](std::size_t actor) const { return actor < counts_.size() ? counts_[actor] : 0; }

 private:
  std::vector<int> counts_;
};

/// Checks accesses to memory independently of the speed of the streams: two accesses to one block, one of
/// them a write, are a violation unless one happens before the other.
class HappensBefore {
 public:
  void access(const void* block, bool write, std::size_t actor, const VectorClock& now, const char* what) {
    auto& past = accesses_[block];
    for (const Access& earlier : past) {
      if ((write || earlier.write) && now[earlier.actor] < earlier.time)
        violations_.push_back(std::string(what) + " is not ordered after " + earlier.what);
    }
    if (write) past.clear();
    past.push_back({write, actor, now[actor], what});
  }
  void add_violation(std::string what) { violations_.push_back(std::move(what)); }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  struct Access {
    bool write;
    std::size_t actor;
    int time;
    const char* what;
  };
  std::map<const void*, std::vector<Access>> accesses_;
  std::vector<std::string> violations_;
};

/// Bugs of an engine or of its user that can be planted.
enum class Bug {
  kNone,
  kMissingEvent,     ///< nothing is recorded after a copy
  kMissingWait,      ///< the consumer does not wait for the copy
  kMissingWaitBack,  ///< copies do not wait for the consumer
  kEarlyRecycle,     ///< host memory counts as read before it is
  kWrongStream,      ///< a stream other than the consumer's waits
  kBlindToGraphs,    ///< streams that record graphs are not recognized
};

/// A device whose streams execute work only in `advance`. Every action of the host, the copies and the
/// consumer's kernels is checked with `HappensBefore`, and the data is real. For one thread.
class TraceCopyEngine final : public CopyEngine {
 public:
  static constexpr std::size_t kHost = 0;
  static constexpr std::size_t kCopy = 1;
  static constexpr std::size_t kFirstConsumer = 2;
  static constexpr std::size_t kStreams = 4;

  explicit TraceCopyEngine(Bug bug = Bug::kNone)
      : bug_(bug), pool_(BufferPool::create(page_allocator(), std::size_t{1} << 26)), clocks_(kStreams) {}

  c10::Device device() const override { return c10::kCPU; }
  const std::shared_ptr<BufferPool>& host_pool() const override { return pool_; }
  bool reads_directly(const at::Tensor&) const override { return direct; }

  at::Tensor allocate_device(std::size_t bytes) override {
    release_held();
    auto& shelf = memory_->free[bytes];
    std::shared_ptr<char[]> block;
    if (shelf.empty()) {
      used_ += bytes;
      TORCH_CHECK_WITH(OutOfMemoryError, used_ <= capacity, "the device has no ", bytes, " bytes left");
      block = std::shared_ptr<char[]>(new char[bytes]);
      ++backing_allocations;
    } else {
      block = std::move(shelf.back());
      shelf.pop_back();
    }
    void* const data = block.get();
    return at::from_blob(
        data, {static_cast<std::int64_t>(bytes)},
        [this, memory = memory_, block, bytes](void*) { give_back(*memory, block, bytes); }, at::kByte);
  }

  void copy_async(const at::Tensor& to, const void* from) override {
    ++copies;
    // The host has just filled `from`.
    clocks_[kHost].tick(kHost);
    checker_.access(from, true, kHost, clocks_[kHost], "the host's filling of a block");
    enqueue(kCopy);
    checker_.access(from, false, kCopy, clocks_[kCopy], "a copy's reading");
    checker_.access(to.const_data_ptr(), true, kCopy, clocks_[kCopy], "a copy's writing");
    work_[kCopy].push_back({[to, from] { std::memcpy(to.mutable_data_ptr(), from, to.nbytes()); }, nullptr});
  }

  void unpack(const at::Tensor& from, ChannelDim channels, const ImageScaling& scaling,
              at::Tensor& to) override {
    enqueue(kCopy);
    checker_.access(from.storage().data(), false, kCopy, clocks_[kCopy], "an unpacking's reading");
    checker_.access(to.storage().data(), true, kCopy, clocks_[kCopy], "an unpacking's writing");
    work_[kCopy].push_back({[=, this]() mutable {
                              const at::Tensor result = unpack_images(from, channels, scaling, {}, *pool_);
                              std::memcpy(to.mutable_data_ptr(), result.const_data_ptr(), to.nbytes());
                            },
                            nullptr});
  }

  c10::Stream copy_stream() const override { return stream(kCopy); }
  c10::Stream current_stream() const override {
    return stream(bug_ == Bug::kWrongStream ? (current == kFirstConsumer ? current + 1 : kFirstConsumer)
                                            : current);
  }
  bool capturing(const c10::Stream& stream) const override {
    return bug_ != Bug::kBlindToGraphs && actor(stream) == recording;
  }

  Event record(const c10::Stream& stream) override {
    auto mark = std::make_shared<Mark>();
    expect_no_graph(stream);
    if (bug_ == Bug::kMissingEvent && actor(stream) == kCopy) {
      mark->done = true;
      return mark;
    }
    enqueue(actor(stream));
    mark->clock = clocks_[actor(stream)];
    work_[actor(stream)].push_back({[mark] { mark->done = true; }, nullptr});
    return mark;
  }

  void wait(const c10::Stream& stream, const Event& event) override {
    expect_no_graph(stream);
    const bool back = actor(stream) == kCopy;
    if (bug_ == (back ? Bug::kMissingWaitBack : Bug::kMissingWait)) return;
    const auto mark = std::static_pointer_cast<Mark>(event);
    enqueue(actor(stream));
    clocks_[actor(stream)].join(mark->clock);
    work_[actor(stream)].push_back({[] {}, mark});
  }

  bool query(const Event& event) override {
    if (bug_ == Bug::kEarlyRecycle) return true;
    const auto mark = std::static_pointer_cast<Mark>(event);
    if (mark->done) clocks_[kHost].join(mark->clock);
    return mark->done;
  }

  void record_stream(const c10::Storage& storage, const c10::Stream& stream) override {
    memory_->held[storage.data()].push_back(actor(stream));
  }

  /// Queues a kernel of the consumer on stream `on` that reads `tensor` and calls `check`.
  void consume(const at::Tensor& tensor, std::size_t on, std::function<void()> check) {
    enqueue(on);
    checker_.access(tensor.storage().data(), false, on, clocks_[on], "a kernel's reading");
    work_[on].push_back({std::move(check), nullptr});
  }

  /// Executes the next piece of work of stream `index`; false if it has none or waits.
  bool advance(std::size_t index) {
    auto& queue = work_[index];
    if (queue.empty() || (queue.front().behind && !queue.front().behind->done)) return false;
    queue.front().run();
    queue.pop_front();
    ++done_[index];
    return true;
  }
  void drain() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t i = kCopy; i < kStreams; ++i) moved = advance(i) || moved;
    }
  }

  const std::vector<std::string>& violations() const { return checker_.violations(); }

  std::size_t current = kFirstConsumer;  ///< the consumer's stream
  std::size_t recording = kHost;         ///< the stream that records a graph; none: `kHost`
  std::size_t capacity = SIZE_MAX;       ///< bytes on the device
  bool direct = false;                   ///< `reads_directly` returns this
  int copies = 0;
  int backing_allocations = 0;

 private:
  struct Mark {
    bool done = false;
    VectorClock clock;
  };
  struct Work {
    std::function<void()> run;
    std::shared_ptr<Mark> behind;
  };
  struct Held {
    std::shared_ptr<char[]> block;
    std::size_t bytes;
    std::vector<std::pair<std::size_t, std::int64_t>> until;  // stream, pieces of work it must have done
    VectorClock clock;
  };
  struct Memory {
    std::map<std::size_t, std::vector<std::shared_ptr<char[]>>> free;
    std::map<const void*, std::vector<std::size_t>> held;
    std::vector<Held> waiting;
  };

  static c10::Stream stream(std::size_t index) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCPU), static_cast<c10::StreamId>(index));
  }
  void expect_no_graph(const c10::Stream& stream) {
    if (actor(stream) == recording)
      checker_.add_violation("a graph is recorded with the library's work in it");
  }
  static std::size_t actor(const c10::Stream& stream) { return static_cast<std::size_t>(stream.id()); }

  void enqueue(std::size_t index) {
    clocks_[kHost].tick(kHost);
    clocks_[index].join(clocks_[kHost]);
    clocks_[index].tick(index);
    ++queued_[index];
  }

  void give_back(Memory& memory, const std::shared_ptr<char[]>& block, std::size_t bytes) {
    const auto held = memory.held.extract(block.get());
    if (held.empty()) {
      memory.free[bytes].push_back(block);
      return;
    }
    Held entry{block, bytes, {}, {}};
    for (const std::size_t index : held.mapped()) {
      entry.until.emplace_back(index, queued_[index]);
      entry.clock.join(clocks_[index]);
    }
    memory.waiting.push_back(std::move(entry));
  }

  void release_held() {
    auto& waiting = memory_->waiting;
    for (std::size_t i = 0; i < waiting.size();) {
      const auto& until = waiting[i].until;
      const bool over = std::all_of(until.begin(), until.end(),
                                    [&](const auto& at) { return done_[at.first] >= at.second; });
      if (!over) {
        ++i;
        continue;
      }
      clocks_[kHost].join(waiting[i].clock);
      memory_->free[waiting[i].bytes].push_back(waiting[i].block);
      waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  const Bug bug_;
  std::size_t used_ = 0;
  std::shared_ptr<BufferPool> pool_;
  std::vector<VectorClock> clocks_;
  HappensBefore checker_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::deque<Work> work_[kStreams];
  std::int64_t queued_[kStreams] = {};
  std::int64_t done_[kStreams] = {};
};

}  // namespace torch_distinput
