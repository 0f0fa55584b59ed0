// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "runtime/executor.h"
#include "sources/columns/block_ahead.h"
#include "sources/columns/column_files_iterator.h"
#include "sources/columns/columns.h"
#include "sources/columns/file_blocks.h"
#include "sources/records/file_names.h"
#include "sources/records/url_names.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {
namespace {

class ColumnFilesNode final : public Node, public ReadsFiles {
 public:
  ColumnFilesNode(NodePtr names, std::shared_ptr<ColumnFiles> files, bool index)
      : names_(std::move(names)), files_(std::move(files)), name_(files_->name()), index_(index) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return name_ + "(" + files_->reader().arguments() + ")"; }
  std::vector<NodePtr> inputs() const override { return {names_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<ColumnFilesNode>(std::move(inputs.at(0)), files_, index_);
  }

  SpecPtr spec() const override {
    const auto name = names_->iterate(context_to_ask(*names_))->next();
    if (!name) return nullptr;
    const auto type = files_->type(file_name_of(*name, name_));
    return {type, &type->spec};
  }
  std::int64_t cardinality() const override {
    // Counted at each call: the reader knows which files have changed since.
    const InterruptWatch watch;
    try {
      return count();
    } catch (const std::exception&) {
      if (watch.interrupt()) throw;
      return kUnknownCardinality;
    }
  }
  void check_sources() const override {
    names_->check_sources();
    count();
  }
  Traits traits() const override { return {.sharding = {.reader = true}, .rows = {.fallible = true}}; }
  std::vector<const UserCode*> user_code() const override { return {&files_->reader()}; }

  PlanPtr plan(const IterContext& context) const override {
    if (!index_ || context.execution->options.skip) return nullptr;
    auto names = list_names(*names_, context.input(0), name_);
    if (!names || names->empty()) return nullptr;
    const auto threads = static_cast<std::size_t>(context.execution->executor->concurrency());
    auto blocks = std::make_shared<const FileBlocks>(files_, *std::move(names), threads);
    auto type = blocks->type();
    return blocks_plan(std::move(blocks), std::move(type), context.execution->pool, name_);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ColumnFilesIterator>(names_->iterate(context.input(0)), files_, !index_, context);
  }

  std::optional<std::vector<std::string>> files(const IterContext& context) const override {
    return list_names(*names_, context.input(0), name_);
  }
  bool lacks_index(const IterContext& context) const override {
    if (!index_ || context.execution->options.skip) return false;
    const auto names = files(context);
    return names && files_->reader().lacks_index(*names);
  }
  bool reads_blocks() const override { return index_; }
  void announce_blocks(const IterContext& context) const override {
    const auto names = files(context);
    if (!names) return;
    const auto counts = files_->reader().count_rows(*names);
    for (std::size_t file = 0; file < names->size(); ++file) announce(names->at(file), counts[file].size());
  }

 private:
  /// Announces all blocks of a file, as many together as are read ahead.
  void announce(const std::string& file, std::size_t count) const {
    if (!names_object(file)) return;
    std::vector<std::int64_t> blocks(count);
    std::iota(blocks.begin(), blocks.end(), 0);
    while (!blocks.empty()) {
      const std::size_t asked = files_->reader().will_read(file, blocks, BlockAhead::kBytes).size();
      if (asked == 0) return;
      blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(std::min(asked, count)));
    }
  }

  std::int64_t count() const {
    if (!index_ || !same_files_each_epoch(*names_)) return kUnknownCardinality;
    const auto names = list_names(*names_, context_to_ask(*names_), name_);
    if (!names) return kUnknownCardinality;
    std::int64_t rows = 0;
    for (const auto& blocks : files_->reader().count_rows(*names)) {
      for (const std::int64_t block : blocks) rows += block;
    }
    return rows;
  }

  NodePtr names_;
  std::shared_ptr<ColumnFiles> files_;
  std::string name_;
  bool index_;
};

}  // namespace

namespace sources {

NodePtr column_files(NodePtr names, std::shared_ptr<const BlockReader> reader, const ColumnOptions& options,
                     bool index) {
  TORCH_CHECK_VALUE(reader != nullptr, "from_blocks: `reader` must not be null.");
  check_file_names(*names, reader->name());
  return std::make_shared<ColumnFilesNode>(std::move(names),
                                           std::make_shared<ColumnFiles>(std::move(reader), options), index);
}

}  // namespace sources
}  // namespace torch_distinput
