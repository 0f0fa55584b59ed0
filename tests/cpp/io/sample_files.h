// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "io/file_error.h"
#include "io/record_reader.h"
#include "io/zlib_abi.h"
#include "support/errors.h"
#include "support/mutations.h"

/// Helpers that write sample files and read them back.
namespace torch_distinput::files_testing {

/// A temporary folder, removed by the destructor.
class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "tdi-files-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// The path of the file `name` in this folder.
  std::string path(const std::string& name) const { return path_ / name; }
  /// Writes the file `name` and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// Each test has a folder of its own.
class InFolder : public ::testing::Test {
 protected:
  const Folder folder_;
};

/// The bytes of a number, as they lie in memory.
template <class Int>
std::string bytes_of(Int value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

/// The framing of TFRecord around `data`.
inline std::string tf_record(const std::string& data) {
  const std::string length = bytes_of<std::uint64_t>(data.size());
  return length + bytes_of(mask_crc(crc32c(length))) + data + bytes_of(mask_crc(crc32c(data)));
}

/// A TFRecord file of `records`.
inline std::string tf_records(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) bytes += tf_record(record);
  return bytes;
}

/// `bytes` as one gzip member or one zlib stream.
inline std::string compressed(const std::string& bytes, Compression compression) {
  TdiZStream stream{};
  deflateInit2_(&stream, 6, 8, compression == Compression::kGzip ? 31 : 15, 8, 0, zlibVersion(),
                sizeof(stream));
  std::string out(bytes.size() + 1024, '\0');
  stream.next_in = reinterpret_cast<const unsigned char*>(bytes.data());
  stream.avail_in = static_cast<unsigned int>(bytes.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned int>(out.size());
  EXPECT_EQ(deflate(&stream, /*Z_FINISH*/ 4), 1);
  deflateEnd(&stream);
  return out.substr(0, stream.total_out);
}

/// `count` random records of lower-case letters, most below 200 bytes, some up to 100,000.
inline std::vector<std::string> random_records(std::size_t count, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  std::vector<std::string> records(count);
  for (std::string& record : records) {
    record.resize(random() % 50 == 0 ? random() % 100'000 : random() % 200);
    for (char& character : record) character = static_cast<char>('a' + random() % 26);
  }
  return records;
}

/// A reader of the file `path` from byte `offset` on.
inline RecordReader reader(const std::string& path, const RecordFormat& format,
                           Compression compression = Compression::kNone, std::uint64_t offset = 0) {
  return {std::make_shared<const File>(path), format, compression, offset};
}

/// A copy of the next record; nullopt at the end.
inline std::optional<std::string> next(RecordReader& reader) {
  const auto record = reader.next();
  if (!record) return std::nullopt;
  return std::string(record->data(), record->size());
}

/// Copies of all records that are left.
inline std::vector<std::string> read_all(RecordReader reader) {
  std::vector<std::string> records;
  while (auto record = next(reader)) records.push_back(*std::move(record));
  return records;
}

/// The formats that the tests use.
inline constexpr RecordFormat kLines{.kind = RecordKind::kTextLines};
inline constexpr RecordFormat kTfRecordFormat{.kind = RecordKind::kTfRecords};
inline RecordFormat fixed(std::uint64_t record, std::uint64_t header = 0, std::uint64_t footer = 0) {
  return {RecordKind::kFixedRecords, record, header, footer};
}

/// Returns the message of the FileError that `call` throws. The test fails if it throws none, or one of
/// another kind than `kind`.
template <class Call>
std::string error_of(Call call, std::optional<FileError::Kind> kind = {}) {
  try {
    call();
  } catch (const FileError& error) {
    if (kind) {
      EXPECT_EQ(error.kind(), *kind);
    }
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

using mutations_testing::kMutations;
using mutations_testing::mutated;

}  // namespace torch_distinput::files_testing
