// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/buffer_pool.h"

#include <array>
#include <atomic>
#include <bit>
#include <mutex>
#include <new>
#include <utility>

#include <pthread.h>

namespace torch_distinput {

/// Bookkeeping of one block, recycled with it. While the block is in use, the node keeps the pool alive. On a
/// shelf it is linked to the block returned before it (`older`) and to the one returned after it (`newer`).
struct PoolNode {
  void* data = nullptr;
  std::size_t capacity = 0;
  std::size_t size = 0;
  std::uint64_t returned_at = 0;
  PoolNode* older = nullptr;
  PoolNode* newer = nullptr;
  std::shared_ptr<BufferPool> pool;
};

namespace {

constexpr std::size_t kSmallest = 256;
constexpr std::size_t kLargest = std::size_t{1} << 62;

struct SizeClass {
  std::size_t index;
  std::size_t capacity;
};

/// Four classes per power of two: 5, 6, 7 and 8 eighths of the next one.
SizeClass size_class(std::size_t bytes) {
  if (bytes <= kSmallest) return {0, kSmallest};
  if (bytes > kLargest) throw std::bad_alloc();
  const auto exponent = static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::size_t eighth = std::size_t{1} << (exponent - 3);
  const std::size_t eighths = (bytes + eighth - 1) / eighth;
  constexpr std::size_t kFirstExponent = 9;
  return {1 + (exponent - kFirstExponent) * 4 + (eighths - 5), eighths * eighth};
}

}  // namespace

struct BufferPool::Shelves {
  struct Shelf {
    PoolNode* oldest = nullptr;
    PoolNode* newest = nullptr;

    void push(PoolNode* node) {
      node->older = newest;
      node->newer = nullptr;
      (newest != nullptr ? newest->newer : oldest) = node;
      newest = node;
    }
    void remove(PoolNode* node) {
      (node->older != nullptr ? node->older->newer : oldest) = node->newer;
      (node->newer != nullptr ? node->newer->older : newest) = node->older;
    }
  };

  std::mutex mutex;
  std::array<Shelf, 224> by_class;
  std::uint64_t returns = 0;
  PoolStats stats;

  PoolNode* take(std::size_t index) {
    PoolNode* node = by_class[index].newest;
    if (node != nullptr) remove(index, node);
    return node;
  }

  /// Takes the block that was returned longest ago. REQUIRES: there is one.
  PoolNode* take_oldest() {
    std::size_t best = by_class.size();
    for (std::size_t i = 0; i < by_class.size(); ++i) {
      const PoolNode* node = by_class[i].oldest;
      if (node == nullptr) continue;
      if (best == by_class.size() || node->returned_at < by_class[best].oldest->returned_at) best = i;
    }
    PoolNode* node = by_class[best].oldest;
    remove(best, node);
    return node;
  }

  void remove(std::size_t index, PoolNode* node) {
    by_class[index].remove(node);
    stats.retained_bytes -= static_cast<std::int64_t>(node->capacity);
  }
};

std::shared_ptr<BufferPool> BufferPool::create(std::shared_ptr<BlockAllocator> allocator,
                                               std::size_t retained_bytes_limit, Packing packing) {
  return std::make_shared<BufferPool>(Passkey{}, std::move(allocator), retained_bytes_limit, packing);
}

BufferPool::BufferPool(Passkey, std::shared_ptr<BlockAllocator> allocator, std::size_t retained_bytes_limit,
                       Packing packing)
    : allocator_(std::move(allocator)),
      limit_(retained_bytes_limit),
      packing_(packing),
      shelves_(std::make_unique<Shelves>()) {}

BufferPool::~BufferPool() {
  for (const Shelves::Shelf& shelf : shelves_->by_class) free_chain(shelf.newest);
}

Block BufferPool::acquire(std::size_t bytes) {
  const SizeClass wanted = size_class(bytes);
  const auto capacity = static_cast<std::int64_t>(wanted.capacity);
  PoolNode* node = nullptr;
  {
    const std::lock_guard lock(shelves_->mutex);
    node = shelves_->take(wanted.index);
    if (node != nullptr) {
      ++shelves_->stats.reuses;
      shelves_->stats.outstanding_bytes += capacity;
    }
  }
  if (node == nullptr) {
    auto fresh = std::make_unique<PoolNode>();
    fresh->data = allocator_->allocate(wanted.capacity);
    fresh->capacity = wanted.capacity;
    node = fresh.release();
    const std::lock_guard lock(shelves_->mutex);
    ++shelves_->stats.allocations;
    shelves_->stats.outstanding_bytes += capacity;
  }
  node->size = bytes;
  node->pool = shared_from_this();
  return Block(node);
}

void BufferPool::put_back(PoolNode* node) noexcept {
  PoolNode* surplus = nullptr;
  {
    Shelves& shelves = *shelves_;
    const std::lock_guard lock(shelves.mutex);
    node->returned_at = ++shelves.returns;
    shelves.by_class[size_class(node->capacity).index].push(node);
    shelves.stats.outstanding_bytes -= static_cast<std::int64_t>(node->capacity);
    shelves.stats.retained_bytes += static_cast<std::int64_t>(node->capacity);
    while (static_cast<std::size_t>(shelves.stats.retained_bytes) > limit_) {
      PoolNode* oldest = shelves.take_oldest();
      oldest->older = surplus;
      surplus = oldest;
    }
  }
  free_chain(surplus);
}

void BufferPool::free_chain(PoolNode* node) noexcept {
  while (node != nullptr) {
    const std::unique_ptr<PoolNode> owned(node);
    node = node->older;
    allocator_->deallocate(owned->data, owned->capacity);
  }
}

PoolStats BufferPool::stats() const {
  const std::lock_guard lock(shelves_->mutex);
  return shelves_->stats;
}

/// Holds the host pool's lock while the process forks: if another thread held it, it would stay locked in the
/// child, where that thread does not exist. For the same reason the pool is not a static object with an
/// initializer.
struct BufferPool::HostPool {
  static inline std::atomic<const std::shared_ptr<BufferPool>*> pool{nullptr};
  static inline Shelves* locked = nullptr;

  static void lock() {
    const auto* const current = pool.load();
    locked = current != nullptr ? (*current)->shelves_.get() : nullptr;
    if (locked != nullptr) locked->mutex.lock();
  }
  static void unlock() {
    if (locked != nullptr) locked->mutex.unlock();
  }
  static inline const int registered = ::pthread_atfork(lock, unlock, unlock);
};

const std::shared_ptr<BufferPool>& host_pool() {
  auto& pool = BufferPool::HostPool::pool;
  const std::shared_ptr<BufferPool>* current = pool.load();
  if (current != nullptr) return *current;
  constexpr std::size_t kLimit = std::size_t{1} << 30;
  auto fresh =
      std::make_unique<const std::shared_ptr<BufferPool>>(BufferPool::create(page_allocator(), kLimit));
  if (!pool.compare_exchange_strong(current, fresh.get())) return *current;
  // Leaked: blocks may be given back after static destruction.
  return *fresh.release();
}

Block::~Block() { reclaim(node_); }

Block::Block(Block&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}

Block& Block::operator=(Block&& other) noexcept {
  if (this != &other) reclaim(std::exchange(node_, std::exchange(other.node_, nullptr)));
  return *this;
}

void* Block::data() const noexcept { return node_->data; }
std::size_t Block::size() const noexcept { return node_->size; }
std::size_t Block::capacity() const noexcept { return node_->capacity; }
void* Block::detach() noexcept { return std::exchange(node_, nullptr); }

void Block::reclaim(void* context) noexcept {
  if (context == nullptr) return;
  auto* node = static_cast<PoolNode*>(context);
  const std::shared_ptr<BufferPool> pool = std::move(node->pool);
  pool->put_back(node);
}

}  // namespace torch_distinput
