// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "device/transfer/host_reads.h"

#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>

#include "base/fork_guard.h"
#include "device/transfer/capture_guard.h"

namespace torch_distinput {
namespace {

using Owner = std::shared_ptr<void>;

at::HostAllocator& allocator() {
  static at::HostAllocator* const found = [] {
    const auto type = at::accelerator::getAccelerator();
    return type ? at::getHostAllocator(*type) : nullptr;
  }();
  if (found == nullptr) throw std::runtime_error("torch has no page-locked memory for this accelerator");
  return *found;
}

/// All blocks that stand for memory, in this process. Never destroyed.
class Blocks {
 public:
  static Blocks& get() {
    static auto& blocks = *new Blocks;
    return blocks;
  }

  /// A block for the memory of `owner`.
  void* take(Owner owner) {
    // The last block stands for nothing, so this memory gets it. The others go back to the allocator.
    std::vector<c10::DataPtr> blocks = take_read();
    void* const block = blocks.back().get_context();
    {
      const std::lock_guard lock(mutex_);
      used_.emplace(block, Used{std::move(blocks.back()), std::move(owner), 1});
    }
    blocks.pop_back();
    free(std::move(blocks));
    return block;
  }

  void collect() {
    {
      const std::lock_guard lock(mutex_);
      if (unread_.empty()) return;
    }
    free(take_read());
  }

  void add_storage(void* block) {
    const std::lock_guard lock(mutex_);
    ++used_.at(block).holders;
  }

  void release(void* block) {
    std::vector<c10::DataPtr> freed;
    {
      const std::lock_guard lock(mutex_);
      const auto found = used_.find(block);
      if (--found->second.holders > 0) return;
      // Before the allocator gets it back, so that the thread that takes it out again finds it here.
      unread_.insert_or_assign(block, std::move(found->second.owner));
      freed.push_back(std::move(found->second.block));
      used_.erase(found);
    }
    free(std::move(freed));
  }

 private:
  struct Used {
    c10::DataPtr block;
    Owner owner;
    std::int64_t holders;
  };

  /// Takes blocks out of the allocator up to the first that stood for nothing. The allocator gives out the
  /// block that came back last first, and none before the copies that used it are done.
  std::vector<c10::DataPtr> take_read() {
    std::vector<Owner> read;  // released without the lock
    std::vector<c10::DataPtr> blocks;
    bool stood = true;
    while (stood) {
      {
        const CaptureGuard capture;
        blocks.push_back(allocator().allocate(1));
      }
      const std::lock_guard lock(mutex_);
      const auto found = unread_.find(blocks.back().get_context());
      stood = found != unread_.end();
      if (stood) {
        read.push_back(std::move(found->second));
        unread_.erase(found);
      }
    }
    return blocks;
  }

  static void free(std::vector<c10::DataPtr> blocks) {
    const CaptureGuard capture;
    blocks.clear();
  }

  std::mutex mutex_;
  std::unordered_map<void*, Used> used_;
  std::unordered_map<void*, Owner> unread_;  // devices may still read the memory of these
};

/// Made with the first block. A forked child does not own the storages that it inherited.
const ForkGuard& fork_guard() {
  static const ForkGuard guard;
  return guard;
}

void release(void* block) {
  if (fork_guard().inherited()) return;
  Blocks::get().release(block);
  HostReads::collect();
}

}  // namespace

HostReads::HostReads(std::shared_ptr<void> owner) : block_(Blocks::get().take(std::move(owner))) {
  fork_guard();
}

HostReads::~HostReads() { release(block_); }

c10::DataPtr HostReads::at(void* data) const {
  Blocks::get().add_storage(block_);
  return {data, block_, &release, c10::kCPU};
}

void HostReads::collect() noexcept {
  try {
    Blocks::get().collect();
  } catch (const std::exception&) {
    // The device failed. The memory stays as it is until the process ends.
  }
}

}  // namespace torch_distinput
