// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

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

/// A freed block that streams used, until they have passed the point where it was freed.
template <class AnyBlock>
struct Waiting {
  explicit Waiting(AnyBlock* freed) : block(freed) {
    for (const c10::Stream& user : std::exchange(freed->users, {})) {
      auto mark = std::make_shared<Mark>();
      mark->next();
      stream_of(user).push([mark] { mark->reach(1); });
      until.push_back(std::move(mark));
    }
  }
  bool is_over() const {
    return std::all_of(until.begin(), until.end(), [](const auto& mark) { return mark->reached(1); });
  }

  AnyBlock* block;
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
    waiting_.emplace_back(block);
  }
  void free_what_is_over() {
    std::erase_if(waiting_, [this](const Waiting<Block>& waiting) {
      if (!waiting.is_over()) return false;
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
  std::vector<Waiting<Block>> waiting_;
};

struct HostBlock {
  char* data;
  std::size_t bytes;
  std::vector<c10::Stream> users;
};

/// As torch's: a freed block is given out again for the same size once the streams that copied from it are
/// done, the one that came back last first.
class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    expect_guarded();
    const std::lock_guard lock(mutex_);
    free_what_is_over();
    auto& shelf = free_[bytes];
    HostBlock* block = nullptr;
    if (shelf.empty()) {
      ++state().host_allocations;
      auto* const data = static_cast<char*>(std::aligned_alloc(kUnit, (bytes + kUnit) / kUnit * kUnit));
      block = new HostBlock{data, bytes, {}};
    } else {
      block = shelf.back();
      shelf.pop_back();
    }
    locked_[block->data] = bytes;
    used_.insert(block);
    return {block->data, block, &release, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void* context, c10::Stream stream) override {
    const std::lock_guard lock(mutex_);
    const auto found = used_.find(static_cast<HostBlock*>(context));
    if (found == used_.end()) return false;
    (*found)->users.push_back(stream);
    return true;
  }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool holds(const void* pointer) {
    const auto* const at = static_cast<const char*>(pointer);
    const std::lock_guard lock(mutex_);
    auto found = locked_.upper_bound(at);
    return found != locked_.begin() && at < (--found)->first + found->second;
  }
  bool add(char* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto next = locked_.upper_bound(data);
    const bool overlaps =
        (next != locked_.end() && next->first < data + bytes) ||
        (next != locked_.begin() && data < std::prev(next)->first + std::prev(next)->second);
    if (overlaps || bytes > state().most_registered) return false;
    locked_[data] = bytes;
    ++state().registered;
    ++state().registrations;
    return true;
  }
  bool remove(const char* data) {
    const std::lock_guard lock(mutex_);
    if (locked_.erase(data) == 0) return false;
    --state().registered;
    return true;
  }
  static HostAllocator& instance() {
    static auto& allocator = *new HostAllocator();
    return allocator;
  }

 private:
  static void release(void* context) { instance().free(static_cast<HostBlock*>(context)); }
  void free(HostBlock* block) {
    expect_guarded();
    const std::lock_guard lock(mutex_);
    locked_.erase(block->data);
    used_.erase(block);
    waiting_.emplace_back(block);
    free_what_is_over();
  }
  void free_what_is_over() {
    std::erase_if(waiting_, [this](const Waiting<HostBlock>& waiting) {
      if (!waiting.is_over()) return false;
      std::memset(waiting.block->data, kPoison, waiting.block->bytes);
      free_[waiting.block->bytes].push_back(waiting.block);
      return true;
    });
  }

  std::mutex mutex_;
  std::map<const char*, std::size_t> locked_;  // also what is registered
  std::set<HostBlock*> used_;
  std::map<std::size_t, std::vector<HostBlock*>> free_;
  std::vector<Waiting<HostBlock>> waiting_;
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

bool register_host(void* data, std::size_t bytes) {
  return HostAllocator::instance().add(static_cast<char*>(data), bytes);
}
bool unregister_host(void* data) { return HostAllocator::instance().remove(static_cast<char*>(data)); }

bool is_page_locked(const void* pointer) { return HostAllocator::instance().holds(pointer); }

void register_allocators() {
  c10::SetAllocator(kType, device_allocator());
  at::setHostAllocator(kType, &HostAllocator::instance());
}

}  // namespace torch_distinput::fake
