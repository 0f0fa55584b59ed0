// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace torch_distinput {

/// Pieces of a batch up to this size share a block where a pool packs.
inline constexpr std::size_t kPackedBytes = std::size_t{1} << 20;
/// Where pieces begin in a block: kernels that load vectors, and compiled ones, rely on aligned data.
inline constexpr std::size_t kPackedAlignment = 256;

/// The first place for a piece after `used` bytes of a block.
constexpr std::size_t packed_offset(std::size_t used) {
  return (used + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

/// Whether the small pieces of a batch lie in blocks of their own, so that keeping one keeps no other, or
/// share one, so that they can be copied at once.
enum class Packing { kApart, kTogether };

/// Where a pool's memory comes from. Any thread may call, also concurrently.
struct BlockAllocator {
  virtual ~BlockAllocator() = default;

  /// At least `bytes` (> 0) of memory, aligned to 64 bytes. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;

  /// Gives back what `allocate(bytes)` returned.
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// Ordinary host memory, touched page by page. From 2 MiB on blocks start at a 2 MiB boundary and the
/// system is asked for huge pages.
std::shared_ptr<BlockAllocator> page_allocator();

struct PoolStats {
  std::int64_t allocations = 0;        ///< Blocks taken from the allocator so far.
  std::int64_t reuses = 0;             ///< Acquisitions served from returned blocks so far.
  std::int64_t outstanding_bytes = 0;  ///< Capacity of the blocks in use now.
  std::int64_t retained_bytes = 0;     ///< Capacity of the returned blocks kept for reuse now.
};

class BufferPool;
struct PoolNode;

/// A piece of pool memory. Move-only; gives the memory back when destroyed, on any thread. Keeps its pool
/// alive. A moved-from or detached block may only be destroyed or assigned to.
class Block {
 public:
  Block() = default;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  void* data() const noexcept;
  std::size_t size() const noexcept;      ///< Bytes asked for.
  std::size_t capacity() const noexcept;  ///< Bytes there are.

  /// Gives the memory up to a C-style owner, which must call `reclaim` with the result exactly once.
  void* detach() noexcept;
  static void reclaim(void* context) noexcept;

 private:
  friend class BufferPool;
  explicit Block(PoolNode* node) : node_(node) {}

  PoolNode* node_ = nullptr;
};

/// Recycles memory blocks: 4 size classes per power of two, the last one returned is the first one reused.
/// Any thread may call any member.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
  struct Passkey {};

 public:
  /// Keeps returned blocks up to `retained_bytes_limit` in all; beyond it those returned longest ago are
  /// freed.
  static std::shared_ptr<BufferPool> create(std::shared_ptr<BlockAllocator> allocator,
                                            std::size_t retained_bytes_limit,
                                            Packing packing = Packing::kApart);
  BufferPool(Passkey, std::shared_ptr<BlockAllocator> allocator, std::size_t retained_bytes_limit,
             Packing packing);
  ~BufferPool();

  /// A block of at least `bytes` (0 is allowed), contents undefined. Throws std::bad_alloc.
  Block acquire(std::size_t bytes);

  PoolStats stats() const;
  /// How those who make batches in this pool should lay them out.
  Packing packing() const noexcept { return packing_; }

 private:
  friend class Block;
  friend const std::shared_ptr<BufferPool>& host_pool();
  struct Shelves;
  struct HostPool;

  void put_back(PoolNode* node) noexcept;
  void free_chain(PoolNode* node) noexcept;

  const std::shared_ptr<BlockAllocator> allocator_;
  const std::size_t limit_;
  const Packing packing_;
  const std::unique_ptr<Shelves> shelves_;
};

/// The process-wide pool of `page_allocator` memory, which keeps up to 1 GiB. Never destroyed. Usable in
/// forked children.
const std::shared_ptr<BufferPool>& host_pool();

}  // namespace torch_distinput
