// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_reader.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <c10/util/Exception.h>

#include "base/counters.h"
#include "execution/execution_context.h"
#include "io/file_error.h"
#include "runtime/arena.h"
#include "runtime/buffer_pool.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_index_cache.h"
#include "sources/records/file_iterator.h"
#include "sources/records/file_names.h"
#include "sources/records/file_plan.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

const char* index_text(const std::optional<bool>& index) {
  if (!index) return "";
  return *index ? ", index=True" : ", index=False";
}

/// The records of all files, in order. Random access needs an index of every file and the number of files; it
/// is off where rows that fail are skipped. Cardinality is known only if each epoch reads the same files.
class FileReaderNode final : public Node {
 public:
  FileReaderNode(NodePtr names, FileReader reader, std::shared_ptr<FileIndexCache> cache)
      : names_(std::move(names)), reader_(std::move(reader)), cache_(std::move(cache)) {}

  std::string_view name() const override { return reader_.name; }
  std::string describe() const override {
    std::string arguments = reader_.arguments + index_text(reader_.index);
    if (arguments.starts_with(", ")) arguments.erase(0, 2);
    return reader_.name + "(" + arguments + ")";
  }
  std::string identity() const override { return reader_.name + "(" + reader_.arguments + ")"; }
  std::vector<NodePtr> inputs() const override { return {names_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<FileReaderNode>(std::move(inputs.at(0)), reader_, cache_);
  }

  SpecPtr spec() const override {
    const auto encoding = reader_.is_text ? std::optional<std::string>("utf-8") : std::nullopt;
    return std::make_shared<const ElementSpec>(
        ElementSpec{Structure::leaf(), {StringSpec{Dims{}, encoding}}});
  }
  std::int64_t cardinality() const override {
    {
      const std::lock_guard lock(mutex_);
      if (cardinality_) return *cardinality_;
    }
    try {
      return count();
    } catch (const FileError&) {
      // The failure is kept, because each op above asks and the intact files would be indexed each time.
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
    with_file_errors(reader_.name, [&] { return count(); });
  }
  Traits traits() const override { return {.reader = true, .fallible = true}; }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    auto records = with_file_errors(reader_.name, [&] { return open(context); });
    return records ? file_plan(std::move(records), reader_, context.execution->pool) : nullptr;
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return file_iterator(names_->iterate(context.input(0)), reader_, context);
  }

 private:
  /// Returns the cardinality of the files as they are now, and keeps it if it is known. Throws FileError.
  std::int64_t count() const {
    if (!same_files_each_epoch(*names_)) return kUnknownCardinality;
    auto execution = std::make_shared<ExecutionContext>(
        ExecutionContext{names_->options(), serial_executor(), host_pool(), std::make_shared<Counters>()});
    execution->options.skip.reset();
    const auto records = open(IterContext{.execution = std::move(execution)});
    const std::lock_guard lock(mutex_);
    refused_ = false;
    cardinality_.reset();
    if (!records) return kUnknownCardinality;
    cardinality_ = records->size();
    return *cardinality_;
  }

  /// Returns random access to the records of the epoch; null if they can only be read in order. Throws
  /// FileError.
  std::shared_ptr<const RecordFetcher> open(const IterContext& context) const {
    if (!reader_.index.value_or(reader_.compression == Compression::kNone)) return nullptr;
    auto names = list_names(*names_, context.input(0), reader_.name);
    if (!names && reader_.index) names_->check_sources();  // throws the cause if the list cannot be read
    TORCH_CHECK_VALUE(names || !reader_.index, reader_.name,
                      ": with `index=True` the number of files must be known, but that of `",
                      names_->describe(), "` is not.");
    if (!names) return nullptr;
    if (!reader_.index && !std::all_of(names->begin(), names->end(), can_index)) return nullptr;
    auto indexes = cache_->get(*names, reader_.format);
    return std::make_shared<const RecordFetcher>(*std::move(names), std::move(indexes));
  }

  NodePtr names_;
  FileReader reader_;
  std::shared_ptr<FileIndexCache> cache_;
  mutable std::mutex mutex_;
  mutable std::optional<std::int64_t> cardinality_;
  mutable bool refused_ = false;  ///< a file could not be indexed, so `cardinality_` is unknown
};

}  // namespace

void apply_options(FileReader& reader, const FileOptions& options) {
  const std::string type = options.compression_type.value_or("");
  TORCH_CHECK_VALUE(type.empty() || type == "GZIP" || type == "ZLIB", reader.name,
                    ": `compression_type` must be None, \"GZIP\" or \"ZLIB\", but is \"", type, "\".");
  TORCH_CHECK_VALUE(type.empty() || !options.index.value_or(false), reader.name,
                    ": `index=True` needs uncompressed files, but `compression_type` is \"", type, "\".");
  if (type == "GZIP") reader.compression = Compression::kGzip;
  if (type == "ZLIB") reader.compression = Compression::kZlib;
  if (!type.empty()) reader.arguments += ", compression_type=" + type;
  reader.index = options.index;
}

NodePtr read_files(NodePtr names, FileReader reader) {
  const SpecPtr spec = names->spec();
  const bool strings =
      spec == nullptr || (spec->leaves.size() == 1 && std::holds_alternative<StringSpec>(spec->leaves[0]) &&
                          dim0(spec->leaves[0]) == std::nullopt);
  TORCH_CHECK_TYPE(strings, reader.name, ": `files` must yield names of files, but yields ", to_string(*spec),
                   ".");
  return std::make_shared<FileReaderNode>(std::move(names), std::move(reader),
                                          std::make_shared<FileIndexCache>());
}

}  // namespace torch_distinput
