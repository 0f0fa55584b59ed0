// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/host_memory.h"

#include <array>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <pthread.h>

#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

/// Hazard pointers: the contexts (of at::DataPtr) whose memory is being read now. A reader enters the context
/// and then checks that the storage still has it; a freeing thread takes the memory from the storage and then
/// looks for its context here. So at least one of them sees the other.
class Readers {
 public:
  Readers() {
    // The threads that were reading in the parent do not exist in a forked child.
    ::pthread_atfork(nullptr, nullptr, [] {
      for (auto& place : all().places_) place.store(nullptr, std::memory_order_relaxed);
    });
  }

  /// Never destroyed: memory may be freed after static objects have been.
  static Readers& all() {
    static auto& readers = *new Readers;
    return readers;
  }

  std::atomic<void*>& enter(void* context) {
    for (std::size_t i = std::hash<std::thread::id>()(std::this_thread::get_id());; ++i) {
      void* unset = nullptr;
      std::atomic<void*>& place = places_[i % places_.size()];
      if (place.compare_exchange_strong(unset, context)) return place;
    }
  }

  void wait_until_unread(const void* context) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (const auto& place : places_)
      while (place.load(std::memory_order_acquire) == context) std::this_thread::yield();
  }

 private:
  std::array<std::atomic<void*>, 256> places_{};
};

/// The number of known deleters: a wait can be put in front of them.
constexpr std::size_t kKnownDeleters = 3;

const std::array<c10::DeleterFnPtr, kKnownDeleters>& known_deleters() {
  static const std::array<c10::DeleterFnPtr, kKnownDeleters> deleters = {
      c10::GetCPUAllocator()->raw_deleter(),
      c10::InefficientStdFunctionContext::makeDataPtr(
          nullptr, [](void*) {}, at::kCPU)
          .get_deleter(),
      &Block::reclaim,
  };
  return deleters;
}

template <std::size_t kIndex>
void free_when_unread(void* context) {
  Readers::all().wait_until_unread(context);
  known_deleters()[kIndex](context);
}

constexpr std::array<c10::DeleterFnPtr, kKnownDeleters> kWaitingDeleters = {
    &free_when_unread<0>, &free_when_unread<1>, &free_when_unread<2>};

bool waits(const at::DataPtr& memory) {
  for (const c10::DeleterFnPtr deleter : kWaitingDeleters)
    if (memory.get_deleter() == deleter) return true;
  return false;
}

/// The context of `memory`. It is null for some nanoseconds while another thread moves the storage, and stays
/// null if the memory was moved out of it; so the wait is bounded.
void* context_of(const at::DataPtr& memory) {
  constexpr int kMaxTurns = 1000;
  void* context = memory.get_context();
  for (int turn = 0; context == nullptr && waits(memory) && turn < kMaxTurns; ++turn) {
    std::this_thread::yield();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    context = memory.get_context();
  }
  return context;
}

void guard_storage(const at::Tensor& tensor) {
  at::DataPtr& memory = tensor.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  for (std::size_t i = 0; i < kKnownDeleters; ++i) {
    const c10::DeleterFnPtr known = known_deleters()[i];
    if (known != nullptr && memory.compare_exchange_deleter(known, kWaitingDeleters[i])) return;
  }
}

/// Calls `visit` with each dense tensor in host memory that holds data of `leaf`.
template <class Visit>
void visit_tensors(const Leaf& leaf, Visit visit) {
  const auto each = [&](std::initializer_list<at::Tensor> tensors) {
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && tensor.device().is_cpu() && tensor.has_storage()) visit(tensor);
  };
  if (const auto* dense = std::get_if<at::Tensor>(&leaf)) each({*dense});
  if (const auto* strings = std::get_if<Bytes>(&leaf)) each({strings->values, strings->offsets});
  if (const auto* ragged = std::get_if<Ragged>(&leaf)) each({ragged->values, ragged->offsets});
  if (const auto* sparse = std::get_if<Sparse>(&leaf))
    each({sparse->value._indices(), sparse->value._values()});
}

/// The bytes from the start of its storage that `tensor` needs. REQUIRES: at least one item.
std::size_t bytes_needed(const at::Tensor& tensor) {
  std::int64_t last = tensor.storage_offset();
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return static_cast<std::size_t>(last + 1) * tensor.element_size();
}

}  // namespace

const char* host_data(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return nullptr;
  const c10::Storage& storage = tensor.storage();
  TORCH_CHECK(storage.nbytes() >= bytes_needed(tensor) && storage.data() != nullptr,
              "a tensor that rows are read from has lost its memory: its storage has ", storage.nbytes(),
              " bytes now, but rows of shape ", tensor.sizes(), " of ", tensor.scalar_type(), " need ",
              bytes_needed(tensor), "; do not resize a tensor that a dataset reads.");
  return static_cast<const char*>(storage.data()) +
         static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size();
}

void guard_reads(const Element& value) {
  for (const Leaf& leaf : value.leaves()) visit_tensors(leaf, guard_storage);
}

// Delegates to the default constructor, so that the destructor runs if `host_data` throws.
ReadGuard::ReadGuard(const at::Tensor& tensor) : ReadGuard() {
  const at::DataPtr& memory = tensor.storage().data_ptr();
  for (;;) {
    void* const context = context_of(memory);
    if (context != nullptr && waits(memory)) place_ = &Readers::all().enter(context);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    data_ = host_data(tensor);
    if (memory.get_context() == context) return;
    // The storage moved between the two reads of its context: try again.
    if (place_ != nullptr) std::exchange(place_, nullptr)->store(nullptr, std::memory_order_release);
  }
}

ReadGuard::~ReadGuard() {
  if (place_ != nullptr) place_->store(nullptr, std::memory_order_release);
}

ReadGuard::ReadGuard(ReadGuard&& other) noexcept
    : place_(std::exchange(other.place_, nullptr)), data_(other.data_) {}

std::vector<ReadGuard> guard(const Element& value) {
  std::vector<ReadGuard> guards;
  for (const Leaf& leaf : value.leaves())
    visit_tensors(leaf, [&](const at::Tensor& tensor) { guards.emplace_back(tensor); });
  return guards;
}

}  // namespace torch_distinput
