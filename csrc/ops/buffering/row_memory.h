// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shared_segment.h"
#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

/// Which rows of a cache are kept. A row is filled by the thread that claims it first; other threads read the
/// input instead of waiting. Lock-free, safe from any thread, and from several processes where the marks lie
/// in memory that they share. What a process that was killed has claimed stays unkept.
class RowClaims {
 public:
  /// What is known of a row: not kept, claimed, or kept by process `mark - kKept`.
  using Mark = std::atomic<std::uint8_t>;
  static constexpr std::uint8_t kKept = 2;

  /// The rows of `marks`, which are 0 at first. `process`: of this one among those that share them, below
  /// 254.
  RowClaims(std::span<Mark> marks, std::uint8_t process) : marks_(marks), own_(kKept + process) {}

  /// The rows of a request, as indices into it.
  struct Split {
    std::vector<std::size_t> kept;    ///< may be read from the cache
    std::vector<std::size_t> mine;    ///< claimed by this call: `keep` or `give_up` must follow
    std::vector<std::size_t> others;  ///< being filled by other threads, or requested twice
  };
  /// Claims those of `rows` that are not claimed or kept yet, and splits the request.
  Split claim(std::span<const std::int64_t> rows);
  /// Returns whether `row` is kept.
  bool kept(std::int64_t row) const;
  /// Returns whether all of `rows` are kept.
  bool all_kept(std::span<const std::int64_t> rows) const;
  /// Which process has kept `row`; nullopt if none, or this one.
  std::optional<std::uint8_t> kept_elsewhere(std::int64_t row) const;
  /// Publishes a claimed row after its data was written.
  void keep(std::int64_t row) { mark(row).store(own_, std::memory_order_release); }
  /// Returns a claimed row to the state before the claim.
  void give_up(std::int64_t row) { mark(row).store(kMissing, std::memory_order_relaxed); }

 private:
  static constexpr std::uint8_t kMissing = 0;
  static constexpr std::uint8_t kClaimed = 1;

  Mark& mark(std::int64_t row) const { return marks_[static_cast<std::size_t>(row)]; }

  std::span<Mark> marks_;
  std::uint8_t own_;
};

/// The rows that all iterators of one cached plan share: columns, for a plan with a layout, else elements.
/// `claims` says which thread may write a row, and which rows may be read. Safe from any thread.
class RowMemory {
 public:
  /// Memory of this process for the rows of `plan`, whose size must be finite.
  static std::shared_ptr<RowMemory> of_process(const Plan& plan);
  /// Memory that the ranks of this job on this host share, for `what`. `structure`: of the elements. Throws
  /// std::system_error where the system has none.
  static std::shared_ptr<RowMemory> of_job(const Plan& plan, StructurePtr structure, const std::string& what);

  RowClaims claims;            ///< the state of each row
  std::vector<char*> columns;  ///< for a plan with a layout, all rows of each leaf

  /// Writes a claimed row. Returns false where there is no room. Throws c10::TypeError for leaves that
  /// processes cannot share.
  bool write(std::int64_t row, const Element& element, BufferPool& pool);
  /// A copy of a kept row in memory of `pool`.
  Element read(std::int64_t row, BufferPool& pool) const;
  /// Whether `element` has the leaves of a row that is kept in the memory of a job.
  bool holds(std::int64_t row, const Element& element) const;

  /// Whether a row of `process`, one of those that share the memory, was found to be the same here.
  bool agrees_with(std::uint8_t process) const noexcept { return agrees_[process].load(); }
  void note_agreement(std::uint8_t process) noexcept { agrees_[process].store(true); }

 private:
  struct Place;
  explicit RowMemory(const Plan& plan);
  RowMemory(const Plan& plan, std::unique_ptr<SharedSegment> shared, StructurePtr structure);
  std::span<const char> bytes_of(std::int64_t row) const;

  std::vector<RowClaims::Mark> own_marks_;
  std::vector<std::unique_ptr<char[]>> own_columns_;
  std::vector<Element> own_elements_;
  std::unique_ptr<SharedSegment> shared_;
  std::span<Place> places_;  ///< of elements in shared memory
  StructurePtr structure_;
  std::array<std::atomic<bool>, 256> agrees_{};
};

}  // namespace torch_distinput
