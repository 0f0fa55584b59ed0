// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/zip_plan.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "execution/plan_traits.h"

namespace torch_distinput {
namespace {

/// The most elements that are compared to find out whether all inputs have the same rows.
constexpr std::int64_t kMaxCompared = std::int64_t{1} << 20;

/// Returns `structure` with parts `next`, `next` + 1, ... in the places of its leaves.
StructurePtr substitute(const StructurePtr& structure, const std::vector<StructurePtr>& parts,
                        std::size_t& next) {
  using Kind = Structure::Kind;
  if (structure->kind() == Kind::kLeaf) return parts[next++];
  std::vector<StructurePtr> children;
  for (const StructurePtr& child : structure->children()) children.push_back(substitute(child, parts, next));
  switch (structure->kind()) {
    case Kind::kTuple:
      return Structure::tuple(std::move(children));
    case Kind::kList:
      return Structure::list(std::move(children));
    case Kind::kDict:
      return Structure::dict(structure->keys(), std::move(children));
    case Kind::kNamedTuple:
      return Structure::named_tuple(structure->name(), structure->keys(), std::move(children),
                                    structure->type());
    default:
      return structure;
  }
}

/// Passes the same positions to every part; each writes its own leaves.
class ZipPlan final : public Plan {
 public:
  ZipPlan(StructurePtr structure, std::vector<PlanPtr> parts)
      : structure_(std::move(structure)), parts_(std::move(parts)), size_(parts_.front()->size()) {
    for (const PlanPtr& part : parts_) size_ = std::min(size_, part->size());
    join_layouts();
  }

  std::int64_t size() const override { return size_; }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  PlanTraits traits() const override {
    PlanTraits all;
    for (const PlanPtr& part : parts_) all = join(all, part->traits());
    return all;
  }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::vector<std::int64_t> wanted(positions.begin(), positions.end());
    for (const PlanPtr& part : parts_) {
      std::copy(wanted.begin(), wanted.end(), positions.begin());
      const std::size_t leaves = part->layout()->leaves.size();
      part->gather(positions, slots, sinks.first(leaves));
      sinks = sinks.subspan(leaves);
    }
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> wanted(positions.begin(), positions.end());
    std::vector<std::vector<Element>> rows(positions.size());
    for (const PlanPtr& part : parts_) {
      std::copy(wanted.begin(), wanted.end(), positions.begin());
      std::vector<Element> elements = part->fetch(positions);
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(std::move(elements[i]));
    }
    std::vector<Element> result;
    result.reserve(rows.size());
    for (auto& row : rows) result.push_back(side_by_side(structure_, std::move(row)));
    return result;
  }

  std::vector<const Plan*> inputs() const override {
    std::vector<const Plan*> inputs;
    for (const PlanPtr& part : parts_) inputs.push_back(part.get());
    return inputs;
  }
  std::int64_t num_source_rows() const override {
    std::int64_t sum = 0;
    for (const PlanPtr& part : parts_) sum += part->num_source_rows();
    return sum;
  }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    for (const std::int64_t position : positions) {
      number_side_by_side(rows, [&](const Plan& part) {
        std::int64_t own = position;
        part.source_rows({&own, 1}, rows);
      });
    }
  }
  void source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const override {
    if (!rows_agree()) return Plan::source_rows_of(segments, rows);
    for (const Segment& segment : segments) {
      for (std::int64_t row = segment.begin; row < segment.end; ++row) {
        const Segment own{segment.element, row, row + 1};
        number_side_by_side(rows, [&](const Plan& part) { part.source_rows_of({&own, 1}, rows); });
      }
    }
  }

  std::int64_t rows(std::int64_t position) const override {
    return rows_agree() ? parts_.front()->rows(position) : kUnknownRows;
  }
  std::int64_t rows_before(std::int64_t position) const override {
    return rows_agree() ? parts_.front()->rows_before(position) : kUnknownRows;
  }

  Element take_rows(std::span<const Segment> segments) const override {
    if (!rows_agree()) return Plan::take_rows(segments);
    std::vector<Element> row;
    for (const PlanPtr& part : parts_) row.push_back(part->take_rows(segments));
    return side_by_side(structure_, std::move(row));
  }

  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    std::vector<std::int64_t> counts;
    for (auto part = parts_.begin(); part != parts_.end() && counts.empty(); ++part)
      counts = (*part)->sampled(position);
    return counts;
  }

  void will_read(std::span<std::int64_t> positions) const override {
    const std::vector<std::int64_t> wanted(positions.begin(), positions.end());
    for (const PlanPtr& part : parts_) {
      std::copy(wanted.begin(), wanted.end(), positions.begin());
      part->will_read(positions);
    }
  }
  void will_take(std::span<const Segment> segments) const override {
    if (!rows_agree()) return Plan::will_take(segments);
    for (const PlanPtr& part : parts_) part->will_take(segments);
  }

 private:
  /// Calls `append` for each part, and numbers what it appends to `rows` after the rows of the parts before.
  template <class Append>
  void number_side_by_side(std::vector<std::int64_t>& rows, const Append& append) const {
    std::int64_t first = 0;
    for (const PlanPtr& part : parts_) {
      const auto before = std::ssize(rows);
      append(*part);
      for (auto row = rows.begin() + before; row != rows.end(); ++row) *row += first;
      first += part->num_source_rows();
    }
  }

  void join_layouts() {
    RowLayout joined;
    std::vector<StructurePtr> structures;
    for (const PlanPtr& part : parts_) {
      const RowLayout* layout = part->layout();
      if (layout == nullptr) return;
      structures.push_back(layout->structure);
      joined.leaves.insert(joined.leaves.end(), layout->leaves.begin(), layout->leaves.end());
    }
    joined.structure = substitute(structure_, structures);
    layout_ = std::move(joined);
  }

  /// Returns whether each element has the same number of rows in all inputs. Compares once.
  bool rows_agree() const {
    std::call_once(compared_, [this] { rows_agree_ = compare_rows(); });
    return rows_agree_;
  }

  bool compare_rows() const {
    if (size_ > kMaxCompared) return false;
    for (std::int64_t element = 0; element < size_; ++element) {
      const std::int64_t rows = parts_.front()->rows(element);
      if (rows == kUnknownRows) return false;
      for (const PlanPtr& part : parts_) {
        if (part->rows(element) != rows) return false;
      }
    }
    return true;
  }

  StructurePtr structure_;
  std::vector<PlanPtr> parts_;
  std::int64_t size_;
  std::optional<RowLayout> layout_;
  mutable std::once_flag compared_;
  mutable bool rows_agree_ = false;
};

}  // namespace

StructurePtr substitute(const StructurePtr& structure, const std::vector<StructurePtr>& parts) {
  std::size_t next = 0;
  return substitute(structure, parts, next);
}

Element side_by_side(const StructurePtr& structure, std::vector<Element> parts) {
  std::vector<StructurePtr> structures;
  std::vector<Leaf> leaves;
  for (Element& part : parts) {
    structures.push_back(part.structure());
    std::move(part.leaves().begin(), part.leaves().end(), std::back_inserter(leaves));
  }
  return {substitute(structure, structures), std::move(leaves)};
}

PlanPtr zip_plan(StructurePtr structure, std::vector<PlanPtr> parts) {
  return std::make_shared<ZipPlan>(std::move(structure), std::move(parts));
}

}  // namespace torch_distinput
