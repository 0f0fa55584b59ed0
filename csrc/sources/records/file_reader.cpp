// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_reader.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <c10/util/Exception.h>

#include "base/cpus.h"
#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "io/index_file.h"
#include "io/index_set.h"
#include "io/record_reader.h"
#include "remote/url.h"
#include "sources/records/byte_elements.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_names.h"
#include "sources/records/file_plan.h"
#include "sources/records/file_row_count.h"
#include "sources/records/files_iterator.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Threads that index files: one for each processor, and more where they wait for a network.
int index_threads(const std::vector<std::string>& files) {
  constexpr int kRemote = 8;
  const bool remote = std::any_of(files.begin(), files.end(), is_url);
  return remote ? std::max(kRemote, available_cpus()) : available_cpus();
}

/// The indexes that the nodes of one dataset share, so that each version of a file is indexed once. Safe from
/// any thread.
class FileIndexCache {
 public:
  /// Whether an object among `files` has no index: neither here nor stored. Waits for stores. Throws
  /// FileError.
  bool lacks_one(const std::vector<std::string>& files, const RecordFormat& format) {
    if (format.kind == RecordKind::kFixedRecords) return false;
    will_open(files);
    return std::any_of(files.begin(), files.end(),
                       [&](const std::string& file) { return is_url(file) && !find(file, format); });
  }

  /// Returns the indexes of `files` as they are now. Waits for those that must be built, and looks for
  /// interrupts meanwhile. Throws FileError if a file cannot be indexed.
  std::vector<RecordIndexPtr> get(const std::vector<std::string>& files, const RecordFormat& format) {
    std::vector<RecordIndexPtr> found(files.size());
    std::vector<std::string> missing;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < files.size(); ++i) {
      found[i] = known(files[i], stamp_of(files[i]));
      if (found[i] != nullptr) continue;
      missing.push_back(files[i]);
      places.push_back(i);
    }
    if (missing.empty()) return found;
    // Without the lock: the interrupt check may run user code, which must not wait for it. Two threads may
    // build the same index.
    const auto built = index_files(missing, format, index_threads(missing), interrupt_check());
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      found[places[i]] = built[i];
      indexes_[missing[i]] = built[i];
    }
    return found;
  }

 private:
  /// The index that is here; null where there is none of this version.
  RecordIndexPtr known(const std::string& file, const FileStamp& stamp) {
    const std::lock_guard lock(mutex_);
    const auto known = indexes_.find(file);
    return known != indexes_.end() && known->second->stamp() == stamp ? known->second : nullptr;
  }

  /// Whether there is an index; a stored one is here afterwards.
  bool find(const std::string& file, const RecordFormat& format) {
    const FileStamp stamp = stamp_of(file);
    if (known(file, stamp) != nullptr) return true;
    auto stored = load_index(File(file), format, stamp);
    if (!stored) return false;
    const std::lock_guard lock(mutex_);
    indexes_[file] = std::make_shared<const RecordIndex>(*std::move(stored));
    return true;
  }

  std::mutex mutex_;
  std::unordered_map<std::string, RecordIndexPtr> indexes_;
};

/// Looks for an interrupt of the calling thread, which is the one that reads.
void look_for_interrupt() {
  if (const auto& check = interrupt_check()) check();
}

/// The records of the files that `names` yields, read in order in the caller's thread. The state is that of
/// `names` before the open file, and the byte of the uncompressed contents at which the next record begins.
class RecordsIterator final : public FilesIterator {
 public:
  RecordsIterator(IteratorPtr names, const FileReader& reader, const IterContext& context)
      : FilesIterator(std::move(names), reader.name, context), reader_(reader) {}

 private:
  void open(const std::string& file, std::int64_t position) override {
    with_file_errors(op(), [&] {
      records_.emplace(std::make_shared<const File>(file), reader_.format, reader_.compression,
                       static_cast<std::uint64_t>(position), look_for_interrupt, reader_.max_record_bytes);
    });
  }
  std::optional<Element> read() override {
    const auto record = with_file_errors(op(), [&] { return records_->next(); });
    if (!record) return std::nullopt;
    return string_element({record->data(), record->size()}, reader_.is_text);
  }
  std::int64_t position() const override { return static_cast<std::int64_t>(records_->offset()); }

  FileReader reader_;
  std::optional<RecordReader> records_;  ///< of the file opened last
};

const char* index_text(const std::optional<bool>& index) {
  if (!index) return "";
  return *index ? ", index=True" : ", index=False";
}

/// The records of all files, in order. Random access needs an index of every file and the number of files; it
/// is off where rows that fail are skipped. Cardinality is known only if each epoch reads the same files.
class FileReaderNode final : public Node, public ReadsFiles {
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
    return count_.get([this] { return count(); });
  }
  void check_sources() const override {
    names_->check_sources();
    with_file_errors(reader_.name, [this] { count_.check([this] { return count(); }); });
  }
  Traits traits() const override { return {.sharding = {.reader = true}, .rows = {.fallible = true}}; }

  PlanPtr plan(const IterContext& context) const override {
    if (context.execution->options.skip) return nullptr;
    auto records = with_file_errors(reader_.name, [&] { return open(context); });
    return records ? file_plan(std::move(records), reader_, context.execution->pool) : nullptr;
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<RecordsIterator>(names_->iterate(context.input(0)), reader_, context);
  }

  std::optional<std::vector<std::string>> files(const IterContext& context) const override {
    return list_names(*names_, context.input(0), reader_.name);
  }
  bool lacks_index(const IterContext& context) const override {
    if (!is_indexed() || context.execution->options.skip) return false;
    const auto names = files(context);
    return names && with_file_errors(reader_.name, [&] { return cache_->lacks_one(*names, reader_.format); });
  }

 private:
  /// Whether its records are counted and found by an index.
  bool is_indexed() const { return reader_.index.value_or(reader_.compression == Compression::kNone); }

  /// The records of the files as they are now. Throws FileError.
  std::int64_t count() const {
    if (!same_files_each_epoch(*names_)) return kUnknownCardinality;
    const auto records = open(context_to_ask(*names_));
    return records ? records->size() : kUnknownCardinality;
  }

  /// Returns random access to the records of the epoch; null if they can only be read in order. Throws
  /// FileError.
  std::shared_ptr<const RecordFetcher> open(const IterContext& context) const {
    if (!is_indexed()) return nullptr;
    auto names = list_names(*names_, context.input(0), reader_.name);
    if (!names && reader_.index) names_->check_sources();  // throws the cause if the list cannot be read
    TORCH_CHECK_VALUE(names || !reader_.index, reader_.name,
                      ": with `index=True` the number of files must be known, but that of `",
                      names_->describe(), "` is not.");
    if (!names) return nullptr;
    will_open(*names);
    if (!reader_.index && !std::all_of(names->begin(), names->end(), can_index)) return nullptr;
    auto indexes = cache_->get(*names, reader_.format);
    return std::make_shared<const RecordFetcher>(*std::move(names), std::move(indexes),
                                                 reader_.max_record_bytes);
  }

  NodePtr names_;
  FileReader reader_;
  std::shared_ptr<FileIndexCache> cache_;
  FileRowCount count_;
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
  if (!options.max_record_bytes) return;
  const std::int64_t most = *options.max_record_bytes;
  TORCH_CHECK_VALUE(most >= 1, reader.name, ": `max_record_bytes` must be at least 1, but is ", most, ".");
  const auto fixed = static_cast<std::int64_t>(reader.format.record_bytes);
  TORCH_CHECK_VALUE(fixed <= most, reader.name, ": `record_bytes` must be at most `max_record_bytes`=", most,
                    ", but is ", fixed, ".");
  reader.max_record_bytes = static_cast<std::uint64_t>(most);
  reader.arguments += ", max_record_bytes=" + std::to_string(most);
}

NodePtr read_files(NodePtr names, FileReader reader) {
  check_file_names(*names, reader.name);
  return std::make_shared<FileReaderNode>(std::move(names), std::move(reader),
                                          std::make_shared<FileIndexCache>());
}

}  // namespace torch_distinput
