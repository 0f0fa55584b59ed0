// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace torch_distinput {

/// Leaves of a batch up to this size share a block where the pool's packing is `kTogether`.
inline constexpr std::size_t kPackedBytes = std::size_t{1} << 20;
/// Alignment of the leaves in a shared block: kernels that load vectors, and compiled ones, rely on aligned
/// data.
inline constexpr std::size_t kPackedAlignment = 256;

/// The first aligned offset after `used` bytes of a block.
constexpr std::size_t packed_offset(std::size_t used) {
  return (used + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
}

/// Whether each small leaf of a batch has a block of its own (kApart), so that keeping one leaf keeps no
/// other in memory, or the small leaves share a block (kTogether), so that one copy moves them all.
enum class Packing { kApart, kTogether };

/// Where a pool's memory comes from. Methods are safe from any thread.
struct BlockAllocator {
  virtual ~BlockAllocator() = default;

  /// At least `bytes` (> 0) of memory, aligned to 64 bytes. Throws std::bad_alloc.
  virtual void* allocate(std::size_t bytes) = 0;

  /// Gives back what `allocate(bytes)` returned.
  virtual void deallocate(void* data, std::size_t bytes) noexcept = 0;
};

/// Ordinary host memory, touched page by page when it is allocated. Blocks of 2 MiB or more start at a 2 MiB
/// boundary, and the system is asked for huge pages.
std::shared_ptr<BlockAllocator> page_allocator();

/// Counts of a pool.
struct PoolStats {
  std::int64_t allocations = 0;        ///< Blocks taken from the allocator so far.
  std::int64_t reuses = 0;             ///< Acquisitions served from returned blocks so far.
  std::int64_t outstanding_bytes = 0;  ///< Capacity of the blocks in use now.
  std::int64_t retained_bytes = 0;     ///< Capacity of the returned blocks kept for reuse now.
};

class BufferPool;
struct PoolNode;

/// A block of pool memory. Move-only; returns the memory to the pool when destroyed, on any thread. Keeps its
/// pool alive. A block that was moved from or detached may only be destroyed or assigned to.
class Block {
 public:
  Block() = default;
  ~Block();
  Block(Block&& other) noexcept;
  Block& operator=(Block&& other) noexcept;

  /// The memory, aligned as the allocator's; it lives as long as the block.
  void* data() const noexcept;
  std::size_t size() const noexcept;      ///< Bytes that were asked for.
  std::size_t capacity() const noexcept;  ///< Bytes of the block, at least `size()`.

  /// Passes the ownership to a C-style owner, which must call `reclaim` with the result exactly once, on any
  /// thread.
  void* detach() noexcept;
  static void reclaim(void* context) noexcept;

 private:
  friend class BufferPool;
  explicit Block(PoolNode* node) : node_(node) {}

  PoolNode* node_ = nullptr;
};

/// Recycles memory blocks: 4 size classes per power of two; the block returned last is reused first. Safe
/// from any thread.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
  struct Passkey {};

 public:
  /// A pool that keeps returned blocks of up to `retained_bytes_limit` bytes in total; beyond that it frees
  /// the blocks returned longest ago.
  static std::shared_ptr<BufferPool> create(std::shared_ptr<BlockAllocator> allocator,
                                            std::size_t retained_bytes_limit,
                                            Packing packing = Packing::kApart);
  BufferPool(Passkey, std::shared_ptr<BlockAllocator> allocator, std::size_t retained_bytes_limit,
             Packing packing);
  ~BufferPool();

  /// A block of at least `bytes` (0 is allowed); its contents are undefined. Throws std::bad_alloc.
  Block acquire(std::size_t bytes);

  /// The present counts.
  PoolStats stats() const;
  /// How batches in this pool's memory should be laid out.
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

/// The process-wide pool of `page_allocator` memory, which keeps up to 1 GiB of returned blocks. Never
/// destroyed. Can be used in forked children.
const std::shared_ptr<BufferPool>& host_pool();

}  // namespace torch_distinput
