// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "io/index_set.h"
#include "ops/ops.h"
#include "sources/records/url_names.h"
#include "sources/sources.h"
#include "torch_distinput/archives.h"
#include "torch_distinput/files.h"

namespace torch_distinput {

FileNames::FileNames(const char* name) : FileNames(std::string(name)) {}
FileNames::FileNames(std::string name) : FileNames(std::vector<std::string>{std::move(name)}) {}
FileNames::FileNames(const std::vector<std::string>& names)
    : node_(sources::file_names(expand_urls(names, "files"))) {}
FileNames::FileNames(const Dataset& names) : node_(names.node()) {}

TextLineDataset::TextLineDataset(FileNames files, FileOptions options)
    : Dataset(sources::text_lines(files.node(), options)) {}

TFRecordDataset::TFRecordDataset(FileNames files, FileOptions options)
    : Dataset(sources::tf_records(files.node(), options)) {}

FixedLengthRecordDataset::FixedLengthRecordDataset(FileNames files, std::int64_t record_bytes,
                                                   std::int64_t header_bytes, std::int64_t footer_bytes,
                                                   FileOptions options)
    : Dataset(sources::fixed_records(files.node(), record_bytes, header_bytes, footer_bytes, options)) {}

TarDataset::TarDataset(FileNames files, FileOptions options)
    : Dataset(sources::tar_members(files.node(), options)) {}

Dataset Dataset::list_files(const std::vector<std::string>& patterns, ListFilesOptions options) {
  const Dataset names(sources::list_files(patterns));
  return options.shuffle ? names.shuffle({.seed = options.seed}) : names;
}

void on_indexing_progress(std::function<void(const IndexingProgress&)> function) {
  set_indexing_progress(std::move(function));
}

}  // namespace torch_distinput
