// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/worker_memory.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

// A multiple of the page sizes of all systems; slabs begin at a multiple of it.
constexpr std::uint64_t kPage = std::uint64_t{1} << 16;
// Address space costs nothing, but a process has 2^47 bytes of it, and may have several pools.
constexpr std::uint64_t kMaxForPool = std::uint64_t{1} << 43;
constexpr std::uint64_t kMinForWorker = std::uint64_t{1} << 28;

constexpr std::uint64_t round_up(std::uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

/// Twice the memory of the machine is enough for all batches that can be alive, whatever their sizes.
std::uint64_t first_choice(int workers) {
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t share = kMaxForPool / static_cast<std::uint64_t>(workers);
  return std::bit_floor(std::max(kMinForWorker, std::min(2 * memory, share)));
}

}  // namespace

struct WorkerMemory::Head {
  alignas(64) Bell to_consumer;
  std::uint64_t slab_space;
  std::int32_t workers;
  std::atomic<std::uint32_t> stopped;
};

namespace {

constexpr std::uint64_t kControls = kPage;  // the head lies before them

std::uint64_t rings_begin(int workers) {
  return round_up(kControls + static_cast<std::uint64_t>(workers) * sizeof(WorkerControl));
}

std::uint64_t slabs_begin_of(int workers) {
  return rings_begin(workers) + static_cast<std::uint64_t>(workers) * 2 * WorkerMemory::kRing;
}

/// The largest segment that the system gives: limits of a process's address space are rare, but exist.
SharedSegment make_segment(int workers, std::uint64_t& slab_space) {
  if (workers < 1) throw std::invalid_argument("WorkerMemory: `workers` must be at least 1.");
  slab_space = first_choice(workers);
  while (true) {
    const std::uint64_t bytes = slabs_begin_of(workers) + static_cast<std::uint64_t>(workers) * slab_space;
    void* const probe = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (probe != MAP_FAILED) ::munmap(probe, bytes);
    if (probe != MAP_FAILED || slab_space <= kMinForWorker) return SharedSegment(bytes);
    slab_space /= 2;
  }
}

}  // namespace

WorkerMemory::WorkerMemory(int workers) : segment_(make_segment(workers, slab_space_)) {
  head().slab_space = slab_space_;
  head().workers = workers;
}

WorkerMemory::WorkerMemory(Attached attached) : segment_(SharedSegment::attach(attached.fd)) {
  slab_space_ = head().slab_space;
}

std::shared_ptr<WorkerMemory> WorkerMemory::attach(int fd) {
  return std::shared_ptr<WorkerMemory>(new WorkerMemory(Attached{fd}));
}

WorkerMemory::Head& WorkerMemory::head() const noexcept { return *reinterpret_cast<Head*>(segment_.data()); }

int WorkerMemory::workers() const noexcept { return head().workers; }

WorkerControl& WorkerMemory::control(int worker) noexcept {
  return reinterpret_cast<WorkerControl*>(segment_.data() + kControls)[worker];
}

char* WorkerMemory::tasks(int worker) noexcept {
  return segment_.data() + rings_begin(workers()) + static_cast<std::uint64_t>(2 * worker) * kRing;
}

char* WorkerMemory::results(int worker) noexcept { return tasks(worker) + kRing; }

std::uint64_t WorkerMemory::slabs_begin(int worker) const noexcept {
  return slabs_begin_of(workers()) + static_cast<std::uint64_t>(worker) * slab_space_;
}

Bell& WorkerMemory::to_consumer() noexcept { return head().to_consumer; }

void WorkerMemory::stop() noexcept {
  head().stopped.store(1);
  for (int worker = 0; worker < workers(); ++worker) control(worker).to_worker.ring();
}

bool WorkerMemory::stopped() noexcept { return head().stopped.load() != 0; }

}  // namespace torch_distinput
