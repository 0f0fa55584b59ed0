// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "io/index_file.h"
#include "io/record_index.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/files.h"

namespace torch_distinput {
namespace {

constexpr const char* kOp = "index";

RecordFormat format_of(IndexKind kind) {
  switch (kind) {
    case IndexKind::kLines:
      return {.kind = RecordKind::kTextLines};
    case IndexKind::kRecords:
      return {.kind = RecordKind::kTfRecords};
    case IndexKind::kGroups:
      break;
  }
  return {.kind = RecordKind::kTarGroups};
}

}  // namespace

std::string make_index(const std::string& name, IndexKind kind,
                       const std::function<void(std::uint64_t bytes)>& report) {
  return with_file_errors(kOp, [&] {
    const File file(name);
    if (!file.stamp().is_regular)
      throw FileError(FileError::Kind::kSystem, name, "only regular files can be indexed");
    std::uint64_t read = 0;
    const std::vector<char> bytes =
        encode_index(build_index(file, format_of(kind), [&](std::uint64_t more) { report(read += more); }));
    return std::string(bytes.begin(), bytes.end());
  });
}

std::optional<std::int64_t> count_indexed(const std::string& name, IndexKind kind, const std::string& index) {
  return with_file_errors(kOp, [&]() -> std::optional<std::int64_t> {
    const auto found = decode_index(index, format_of(kind), stamp_of(name));
    return found ? std::optional(found->size()) : std::nullopt;
  });
}

}  // namespace torch_distinput
