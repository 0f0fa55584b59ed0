// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/buffering/row_memory.h"

#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>
#include <unistd.h>

#include "base/current_poll.h"
#include "io/job_memory.h"
#include "kernels/element_codec.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

/// The start of shared memory. Marks follow, and then columns, or the places of elements and their bytes.
struct Head {
  std::atomic<std::uint32_t> processes;  ///< that have mapped it
  std::atomic<std::uint64_t> used;       ///< bytes of elements
};
constexpr std::uint64_t kAlignment = 4096;
/// Processes beyond it count as one another: a row of each of them is not looked at.
constexpr std::uint32_t kMostProcesses = 253;

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t column_bytes(const Plan& plan, const LeafLayout& leaf) {
  std::uint64_t bytes = 0;
  TORCH_CHECK_VALUE(!__builtin_mul_overflow(static_cast<std::uint64_t>(plan.size()),
                                            static_cast<std::uint64_t>(leaf.bytes), &bytes) &&
                        bytes < std::uint64_t{1} << 62,
                    "cache: ", plan.size(), " rows of ", leaf.bytes, " bytes are more than memory can hold.");
  return bytes;
}

/// All memory of this machine: more elements have no room anyway, and what is not used costs nothing.
std::uint64_t memory_of_machine() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// Where the columns, or the places of elements, begin.
std::uint64_t begin_of_rows(const Plan& plan) {
  return aligned(sizeof(Head) + static_cast<std::uint64_t>(plan.size()));
}

std::span<RowClaims::Mark> marks_in(const SharedSegment& shared, const Plan& plan) {
  static_assert(RowClaims::Mark::is_always_lock_free && sizeof(RowClaims::Mark) == 1);
  return {reinterpret_cast<RowClaims::Mark*>(shared.data() + sizeof(Head)),
          static_cast<std::size_t>(plan.size())};
}

Head& head_of(const SharedSegment& shared) { return *reinterpret_cast<Head*>(shared.data()); }

std::uint8_t number_of_process(const SharedSegment& shared) {
  return static_cast<std::uint8_t>(std::min(head_of(shared).processes.fetch_add(1), kMostProcesses));
}

}  // namespace

RowClaims::Split RowClaims::claim(std::span<const std::int64_t> rows) {
  Split split;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::uint8_t seen = kMissing;
    if (mark(rows[i]).compare_exchange_strong(seen, kClaimed, std::memory_order_acquire)) {
      split.mine.push_back(i);
    } else {
      (seen >= kKept ? split.kept : split.others).push_back(i);
    }
  }
  return split;
}

bool RowClaims::kept(std::int64_t row) const { return mark(row).load(std::memory_order_acquire) >= kKept; }

bool RowClaims::all_kept(std::span<const std::int64_t> rows) const {
  return std::all_of(rows.begin(), rows.end(), [this](std::int64_t row) { return kept(row); });
}

std::optional<std::uint8_t> RowClaims::kept_elsewhere(std::int64_t row) const {
  const std::uint8_t seen = mark(row).load(std::memory_order_acquire);
  if (seen < kKept || seen == own_) return std::nullopt;
  return static_cast<std::uint8_t>(seen - kKept);
}

/// Where the bytes of an element lie in shared memory.
struct RowMemory::Place {
  std::uint64_t begin;
  std::uint64_t size;
};

RowMemory::RowMemory(const Plan& plan) : claims({}, 0), own_marks_(static_cast<std::size_t>(plan.size())) {
  claims = RowClaims(own_marks_, 0);
  if (plan.layout() == nullptr) {
    own_elements_.resize(own_marks_.size());
    return;
  }
  for (const LeafLayout& leaf : plan.layout()->leaves) {
    // Uninitialised: the kernel allocates a page when its first row is written.
    own_columns_.emplace_back(new char[column_bytes(plan, leaf)]);
    columns.push_back(own_columns_.back().get());
  }
}

RowMemory::RowMemory(const Plan& plan, std::unique_ptr<SharedSegment> shared, StructurePtr structure)
    : claims(marks_in(*shared, plan), number_of_process(*shared)),
      shared_(std::move(shared)),
      structure_(std::move(structure)) {
  std::uint64_t begin = begin_of_rows(plan);
  if (plan.layout() == nullptr) {
    places_ = {reinterpret_cast<Place*>(shared_->data() + begin), static_cast<std::size_t>(plan.size())};
    return;
  }
  for (const LeafLayout& leaf : plan.layout()->leaves) {
    columns.push_back(shared_->data() + begin);
    begin += aligned(column_bytes(plan, leaf));
  }
}

std::shared_ptr<RowMemory> RowMemory::of_process(const Plan& plan) {
  return std::shared_ptr<RowMemory>(new RowMemory(plan));
}

std::shared_ptr<RowMemory> RowMemory::of_job(const Plan& plan, StructurePtr structure,
                                             const std::string& what) {
  std::uint64_t bytes = begin_of_rows(plan);
  if (const RowLayout* const layout = plan.layout()) {
    for (const LeafLayout& leaf : layout->leaves) bytes += aligned(column_bytes(plan, leaf));
  } else {
    bytes += static_cast<std::uint64_t>(plan.size()) * sizeof(Place) + memory_of_machine();
  }
  auto shared = job_memory(what, bytes, current_poll());
  return std::shared_ptr<RowMemory>(new RowMemory(plan, std::move(shared), std::move(structure)));
}

bool RowMemory::write(std::int64_t row, const Element& element, BufferPool& pool) {
  if (shared_ == nullptr) {
    own_elements_[static_cast<std::size_t>(row)] = copy_element(element, pool);
    return true;
  }
  const std::vector<char> bytes = encode_element(element, "cache");
  const auto first =
      static_cast<std::uint64_t>(reinterpret_cast<char*>(places_.data() + places_.size()) - shared_->data());
  const std::uint64_t begin = first + head_of(*shared_).used.fetch_add(bytes.size());
  if (begin > shared_->size() || bytes.size() > shared_->size() - begin) return false;
  std::copy(bytes.begin(), bytes.end(), shared_->data() + begin);
  places_[static_cast<std::size_t>(row)] = {begin, bytes.size()};
  return true;
}

std::span<const char> RowMemory::bytes_of(std::int64_t row) const {
  const Place place = places_[static_cast<std::size_t>(row)];
  TORCH_CHECK_VALUE(place.begin <= shared_->size() && place.size <= shared_->size() - place.begin,
                    "cache: row ", row, " lies outside of the memory that ranks share.");
  return {shared_->data() + place.begin, static_cast<std::size_t>(place.size)};
}

Element RowMemory::read(std::int64_t row, BufferPool& pool) const {
  if (shared_ == nullptr) return copy_element(own_elements_[static_cast<std::size_t>(row)], pool);
  return decode_element(bytes_of(row), structure_, pool, "cache");
}

bool RowMemory::holds(std::int64_t row, const Element& element) const {
  const std::vector<char> made = encode_element(element, "cache");
  const std::span<const char> kept = bytes_of(row);
  return std::equal(made.begin(), made.end(), kept.begin(), kept.end());
}

}  // namespace torch_distinput
