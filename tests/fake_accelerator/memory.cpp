// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "state.h"

namespace torch_distinput::fake {
namespace {

constexpr std::size_t kSpace = std::size_t{1} << 32;  // bytes of a device; only used pages take memory
constexpr std::size_t kUnit = 512;
constexpr int kPoison = 0xDB;

/// A device's memory, mapped twice: addresses that the host cannot access, and memory that streams use.
struct Space {
  char* addresses = map(PROT_NONE);
  char* memory = map(PROT_READ | PROT_WRITE);
  std::size_t used = 0;

  static char* map(int access) {
    return static_cast<char*>(
        ::mmap(nullptr, kSpace, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  }
};

struct Block {
  char* address;
  std::size_t bytes;
  c10::Stream owner;
  std::vector<c10::Stream> users;
};

/// A freed block that other streams used, until they have passed the point where it was freed.
struct Waiting {
  Block* block;
  std::vector<std::shared_ptr<Mark>> until;
};

class DeviceAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    expect_guarded();
    const c10::DeviceIndex device = current().device;
    const c10::Stream stream = current_stream(device);
    const c10::Device place(kType, device);
    if (bytes == 0) return {nullptr, nullptr, &release, place};
    const std::lock_guard lock(mutex_);
    free_what_is_over();
    Block* const block = take((bytes + kUnit - 1) / kUnit * kUnit, stream);
    return {block->address, block, &release, place};
  }
  void use_on(Block& block, const c10::Stream& stream) {
    const std::lock_guard lock(mutex_);
    if (stream != block.owner) block.users.push_back(stream);
  }
  void* memory_of(const void* address) {
    const auto* const at = static_cast<const char*>(address);
    for (Space& space : spaces_) {
      if (at >= space.addresses && at < space.addresses + kSpace)
        return space.memory + (at - space.addresses);
    }
    return nullptr;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void*, const void*, std::size_t) const override { std::abort(); }

 private:
  using Key = std::pair<std::size_t, std::pair<c10::DeviceIndex, c10::StreamId>>;
  static Key key(std::size_t bytes, const c10::Stream& stream) {
    return {bytes, {stream.device_index(), stream.id()}};
  }
  static DeviceAllocator& instance() { return static_cast<DeviceAllocator&>(*device_allocator()); }

  Block* take(std::size_t bytes, const c10::Stream& stream) {
    auto& shelf = free_[key(bytes, stream)];
    if (!shelf.empty()) {
      Block* const block = shelf.back();
      shelf.pop_back();
      return block;
    }
    ++state().device_allocations;
    Space& space = spaces_[static_cast<std::size_t>(stream.device_index())];
    char* const address = space.addresses + space.used;
    space.used += bytes;
    TORCH_CHECK(space.used <= kSpace, "fake accelerator: out of memory");
    return new Block{address, bytes, stream, {}};
  }

  static void release(void* context) {
    if (context != nullptr) instance().free(static_cast<Block*>(context));
  }
  void free(Block* block) {
    const std::lock_guard lock(mutex_);
    if (block->users.empty()) return put_back(block);
    Waiting waiting{block, {}};
    for (const c10::Stream& user : std::exchange(block->users, {})) {
      auto mark = std::make_shared<Mark>();
      mark->next();
      stream_of(user).push([mark] { mark->reach(1); });
      waiting.until.push_back(std::move(mark));
    }
    waiting_.push_back(std::move(waiting));
  }
  void free_what_is_over() {
    std::erase_if(waiting_, [this](const Waiting& waiting) {
      for (const auto& mark : waiting.until)
        if (!mark->reached(1)) return false;
      put_back(waiting.block);
      return true;
    });
  }
  void put_back(Block* block) {
    // On the block's stream, and so before the next use of the block.
    stream_of(block->owner).push([this, block] {
      std::memset(memory_of(block->address), kPoison, block->bytes);
    });
    free_[key(block->bytes, block->owner)].push_back(block);
  }

  std::mutex mutex_;
  std::array<Space, kDevices> spaces_;
  std::map<Key, std::vector<Block*>> free_;
  std::vector<Waiting> waiting_;
};

class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    expect_guarded();
    ++state().host_allocations;
    void* const data = std::aligned_alloc(kUnit, (bytes + kUnit) / kUnit * kUnit);
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const char*>(data)] = bytes;
    return {data, data, &release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool holds(const void* pointer) {
    const auto* const at = static_cast<const char*>(pointer);
    const std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(at);
    return found != blocks_.begin() && at < (--found)->first + found->second;
  }
  static HostAllocator& instance() {
    static auto& allocator = *new HostAllocator();
    return allocator;
  }

 private:
  static void release(void* data) {
    const std::lock_guard lock(instance().mutex_);
    instance().blocks_.erase(static_cast<const char*>(data));
    std::memset(data, kPoison, 1);
    std::free(data);
  }

  std::mutex mutex_;
  std::map<const char*, std::size_t> blocks_;
};

}  // namespace

c10::Allocator* device_allocator() {
  static auto& allocator = *new DeviceAllocator();
  return &allocator;
}

void* memory_of(const void* device_pointer) {
  return static_cast<DeviceAllocator*>(device_allocator())->memory_of(device_pointer);
}

void use_on(const c10::DataPtr& data, const c10::Stream& stream) {
  if (data.get_context() == nullptr) return;
  static_cast<DeviceAllocator*>(device_allocator())->use_on(*static_cast<Block*>(data.get_context()), stream);
}

bool is_page_locked(const void* pointer) { return HostAllocator::instance().holds(pointer); }

void register_allocators() {
  c10::SetAllocator(kType, device_allocator());
  at::setHostAllocator(kType, &HostAllocator::instance());
}

}  // namespace torch_distinput::fake
