// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/row_files_node.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/element_type.h"
#include "core/interrupt_poll.h"
#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "io/file_error.h"
#include "io/host_deal.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_names.h"
#include "sources/records/file_row_count.h"
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
    InterruptPoll poll;
    will_open(paths);
    open_scattered(paths, format, poll);
    for (const std::string& path : paths) {
      poll();
      files.push_back(open(path, format));
      check_same_rows(*files.front(), *files.back());
    }
    return files;
  }

 private:
  /// Opens the files in an order of this process, because processes on the host take over what others of them
  /// have found in a file. Errors come again, in the files' order.
  void open_scattered(const std::vector<std::string>& paths, const RowFormat& format, InterruptPoll& poll) {
    try {
      for (const std::size_t number : deal_files(paths.size(), {}).order) {
        poll();
        open(paths[number], format);
      }
    } catch (const FileError&) {
      return;
    }
  }

  RowFilePtr open(const std::string& path, const RowFormat& format) {
    // Without the lock: the interrupt check may run user code, which must not wait for it.
    if (RowFilePtr known = find(path);
        known != nullptr && stamp_of(path) == known->stamp && stamp_of(known->data_path) == known->data_stamp)
      return known;
    RowFilePtr file = format.open(path, interrupt_check());
    const std::lock_guard lock(mutex_);
    return files_[path] = std::move(file);
  }

  RowFilePtr find(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto known = files_.find(path);
    return known == files_.end() ? nullptr : known->second;
  }

  std::mutex mutex_;
  std::unordered_map<std::string, RowFilePtr> files_;
};

class RowFilesNode final : public Node, public ReadsFiles {
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
    return count_.get([this] { return count(); });
  }
  void check_sources() const override {
    names_->check_sources();
    with_file_errors(name_, [this] { count_.check([this] { return count(); }); });
  }
  Traits traits() const override { return {.sharding = {.reader = true}, .rows = {.fallible = true}}; }

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

  std::optional<std::vector<std::string>> files(const IterContext& context) const override {
    return list_names(*names_, context.input(0), name_);
  }

 private:
  /// The type of the rows of the first file; null without files.
  SpecPtr first_spec() const {
    const IteratorPtr names = names_->iterate(context_to_ask(*names_).input(0));
    const std::optional<Element> first = names->next();
    if (!first) return nullptr;
    return cache_->get(std::vector{file_name_of(*first, name_)}, *format_).front()->spec;
  }

  /// The rows of the files as they are now. Throws FileError.
  std::int64_t count() const {
    if (!same_files_each_epoch(*names_)) return kUnknownCardinality;
    const auto files = open(context_to_ask(*names_));
    if (!files) return kUnknownCardinality;
    std::int64_t rows = 0;
    for (const RowFilePtr& file : *files) rows = rows_with(rows, *file);
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
  FileRowCount count_;
};

}  // namespace

NodePtr read_row_files(NodePtr names, std::shared_ptr<const RowFormat> format) {
  check_file_names(*names, format->name());
  return std::make_shared<RowFilesNode>(std::move(names), std::move(format),
                                        std::make_shared<RowFileCache>());
}

}  // namespace torch_distinput
