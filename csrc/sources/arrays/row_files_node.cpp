// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/row_files_node.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "core/element_type.h"
#include "execution/execution_context.h"
#include "runtime/arena.h"
#include "runtime/buffer_pool.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_names.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// The files that the nodes of one dataset have opened, so that each version of a file is opened once. Safe
/// from any thread.
class RowFileCache {
 public:
  /// The files as they are now. Throws FileError as `RowFormat::open`, and for rows of different types.
  std::vector<RowFilePtr> get(const std::vector<std::string>& paths, const RowFormat& format) {
    std::vector<RowFilePtr> files;
    for (const std::string& path : paths) {
      files.push_back(open(path, format));
      check_same_rows(*files.front(), *files.back());
    }
    return files;
  }

 private:
  RowFilePtr open(const std::string& path, const RowFormat& format) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = files_.find(path);
      if (known != files_.end() && stamp_of(path) == known->second->stamp &&
          stamp_of(known->second->data_path) == known->second->data_stamp)
        return known->second;
    }
    // Without the lock: the interrupt check may run user code, which must not wait for it.
    RowFilePtr file = format.open(path, interrupt_check());
    const std::lock_guard lock(mutex_);
    return files_[path] = std::move(file);
  }

  std::mutex mutex_;
  std::unordered_map<std::string, RowFilePtr> files_;
};

class RowFilesNode final : public Node {
 public:
  RowFilesNode(NodePtr names, std::shared_ptr<const RowFormat> format, std::shared_ptr<RowFileCache> cache)
      : names_(std::move(names)),
        format_(std::move(format)),
        cache_(std::move(cache)),
        name_(format_->name()) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return name_ + "(" + format_->arguments() + ")"; }
  std::vector<NodePtr> inputs() const override { return {names_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<RowFilesNode>(std::move(inputs.at(0)), format_, cache_);
  }

  SpecPtr spec() const override {
    if (SpecPtr known = format_->spec()) return known;
    return probe_.get([this] { return with_file_errors(name_, [this] { return first_spec(); }); });
  }
  std::int64_t cardinality() const override {
    {
      const std::lock_guard lock(mutex_);
      if (cardinality_) return *cardinality_;
    }
    try {
      return count();
    } catch (const FileError&) {
      // The failure is kept, because each op above asks and the intact files would be opened each time.
      const std::lock_guard lock(mutex_);
      refused_ = true;
      cardinality_ = kUnknownCardinality;
      return kUnknownCardinality;
    }
  }
  void check_sources() const override {
    names_->check_sources();
    {
      const std::lock_guard lock(mutex_);
      if (!refused_) return;
    }
    with_file_errors(name_, [&] { return count(); });
  }
  Traits traits() const override { return {.reader = true, .fallible = true}; }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    return with_file_errors(name_, [&]() -> PlanPtr {
      auto files = open(context);
      return files ? format_->plan(*std::move(files), context.execution->pool) : nullptr;
    });
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return row_file_iterator(names_->iterate(context.input(0)), format_, context);
  }

 private:
  IterContext own_context() const {
    auto execution = std::make_shared<ExecutionContext>(
        ExecutionContext{names_->options(), serial_executor(), host_pool(), std::make_shared<Counters>()});
    execution->options.skip.reset();
    return IterContext{.execution = std::move(execution)};
  }

  /// The type of the rows of the first file; null without files.
  SpecPtr first_spec() const {
    const IteratorPtr names = names_->iterate(own_context().input(0));
    const std::optional<Element> first = names->next();
    if (!first) return nullptr;
    return cache_->get(std::vector{file_name_of(*first, name_)}, *format_).front()->spec;
  }

  /// Returns the cardinality of the files as they are now, and keeps it if it is known. Throws FileError.
  std::int64_t count() const {
    if (!same_files_each_epoch(*names_)) return kUnknownCardinality;
    const auto files = open(own_context());
    const std::lock_guard lock(mutex_);
    refused_ = false;
    cardinality_.reset();
    if (!files) return kUnknownCardinality;
    std::int64_t rows = 0;
    for (const RowFilePtr& file : *files) rows += file->rows;
    cardinality_ = rows;
    return rows;
  }

  /// Returns the files of the epoch; nullopt if their number is not known. Throws FileError.
  std::optional<std::vector<RowFilePtr>> open(const IterContext& context) const {
    const auto names = list_names(*names_, context.input(0), name_);
    if (!names) return std::nullopt;
    return cache_->get(*names, *format_);
  }

  NodePtr names_;
  std::shared_ptr<const RowFormat> format_;
  std::shared_ptr<RowFileCache> cache_;
  std::string name_;
  SpecProbe probe_;
  mutable std::mutex mutex_;
  mutable std::optional<std::int64_t> cardinality_;
  mutable bool refused_ = false;  ///< a file could not be opened, so `cardinality_` is unknown
};

}  // namespace

NodePtr read_row_files(NodePtr names, std::shared_ptr<const RowFormat> format) {
  const SpecPtr spec = names->spec();
  const bool strings =
      spec == nullptr || (spec->leaves.size() == 1 && std::holds_alternative<StringSpec>(spec->leaves[0]) &&
                          dim0(spec->leaves[0]) == std::nullopt);
  TORCH_CHECK_TYPE(strings, format->name(), ": `files` must yield names of files, but yields ",
                   to_string(*spec), ".");
  return std::make_shared<RowFilesNode>(std::move(names), std::move(format),
                                        std::make_shared<RowFileCache>());
}

}  // namespace torch_distinput
