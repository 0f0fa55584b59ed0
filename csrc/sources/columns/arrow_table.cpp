// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "execution/execution_context.h"
#include "sources/columns/arrow_owned.h"
#include "sources/columns/blocks_plan.h"
#include "sources/columns/columns.h"
#include "sources/source_node.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kArrowName = "from_arrow";

/// Blocks in memory.
class HeldBlocks final : public BlockSet {
 public:
  void add(RowBlock block) {
    if (block.rows == 0) return;
    starts_.push_back(starts_.back() + block.rows);
    blocks_.push_back(std::make_shared<const RowBlock>(std::move(block)));
  }
  const std::vector<std::int64_t>& starts() const override { return starts_; }
  SourceRow source_row(std::int64_t row) const override { return {0, "", row}; }
  BlockPtr block(std::size_t index) const override { return blocks_[index]; }
  bool reads_files() const override { return false; }

 private:
  std::vector<std::int64_t> starts_{0};
  std::vector<BlockPtr> blocks_;
};

class ArrowTableNode final : public SourceNode {
 public:
  ArrowTableNode(std::shared_ptr<const HeldBlocks> blocks, std::shared_ptr<const RowType> type)
      : blocks_(std::move(blocks)), type_(std::move(type)) {}

  std::string_view name() const override { return kArrowName; }
  std::string describe() const override {
    return c10::str(kArrowName, "(rows=", cardinality(), ", ", to_string(type_->spec), ")");
  }
  SpecPtr spec() const override { return {type_, &type_->spec}; }
  std::int64_t cardinality() const override { return blocks_->starts().back(); }

  PlanPtr plan(const IterContext& context) const override {
    return blocks_plan(blocks_, type_, context.execution->pool, kArrowName);
  }
  IteratorPtr iterate(const IterContext& context) const override { return iterate_plan(plan(context)); }

 private:
  std::shared_ptr<const HeldBlocks> blocks_;
  std::shared_ptr<const RowType> type_;
};

}  // namespace

NodePtr arrow_table(ArrowArrayStream* stream, const ColumnOptions& options) {
  ArrowOwned<ArrowArrayStream> owner;
  take_stream(stream, owner);
  ArrowOwned<ArrowSchema> schema;
  read_schema(owner.get(), schema, kArrowName);
  auto type = row_type(*schema, options, kArrowName);
  auto blocks = std::make_shared<HeldBlocks>();
  while (const ArrowBatch batch = read_batch(owner.get(), kArrowName))
    blocks->add(import_block(type->table, batch, {kArrowName, blocks->starts().back()}));
  return std::make_shared<ArrowTableNode>(std::move(blocks), std::move(type));
}

}  // namespace torch_distinput::sources
