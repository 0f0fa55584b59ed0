// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include "sources/records/file_reader.h"
#include "sources/sources.h"

namespace torch_distinput::sources {
namespace {

constexpr const char* kFixedRecordsName = "FixedLengthRecordDataset";
/// Sums of the three sizes and the size of a file stay far below 2^63.
constexpr std::int64_t kMax = std::int64_t{1} << 40;

std::uint64_t checked(const char* parameter, std::int64_t value, std::int64_t least) {
  TORCH_CHECK_VALUE(value >= least && value <= kMax, kFixedRecordsName, ": `", parameter,
                    "` must be at least ", least, " and at most ", kMax, ", but is ", value, ".");
  return static_cast<std::uint64_t>(value);
}

}  // namespace

NodePtr fixed_records(NodePtr names, std::int64_t record_bytes, std::int64_t header_bytes,
                      std::int64_t footer_bytes, const FileOptions& options) {
  FileReader reader{.name = kFixedRecordsName,
                    .arguments = c10::str("record_bytes=", record_bytes, ", header_bytes=", header_bytes,
                                          ", footer_bytes=", footer_bytes),
                    .format = {.kind = RecordKind::kFixedRecords,
                               .record_bytes = checked("record_bytes", record_bytes, 1),
                               .header_bytes = checked("header_bytes", header_bytes, 0),
                               .footer_bytes = checked("footer_bytes", footer_bytes, 0)}};
  apply_options(reader, options);
  return read_files(std::move(names), std::move(reader));
}

}  // namespace torch_distinput::sources
