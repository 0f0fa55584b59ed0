// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void* map_huge(std::size_t bytes) {
  // Maps one huge page more than needed and unmaps what lies before and after the aligned part.
  const std::size_t mapped = bytes + kHugePage;
  void* const memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* const start = static_cast<std::byte*>(memory);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + bytes, kHugePage - before);
  // May fail on a system without huge pages; ordinary pages work too.
  ::madvise(start + before, bytes, MADV_HUGEPAGE);
  return start + before;
}

class PageAllocator final : public BlockAllocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* const data = bytes >= kHugePage ? map_huge(round_up(bytes, kPage))
                                          : std::aligned_alloc(kAlignment, round_up(bytes, kAlignment));
    if (data == nullptr) throw std::bad_alloc();
    // The first touch of a page costs 10 to 40 times a later one, so it is done here and not while a batch is
    // built.
    for (std::size_t offset = 0; offset < bytes; offset += kPage)
      static_cast<volatile char*>(data)[offset] = 0;
    return data;
  }

  void deallocate(void* data, std::size_t bytes) noexcept override {
    if (bytes >= kHugePage) {
      ::munmap(data, round_up(bytes, kPage));
    } else {
      std::free(data);
    }
  }
};

}  // namespace

std::shared_ptr<BlockAllocator> page_allocator() { return std::make_shared<PageAllocator>(); }

}  // namespace torch_distinput
