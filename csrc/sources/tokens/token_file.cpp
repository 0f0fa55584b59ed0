// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/tokens/token_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>

#include "io/file_error.h"
#include "io/host_share.h"
#include "sources/arrays/row_files.h"
#include "sources/tokens/token_values.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kIndexSuffix = ".idx";
/// The index as megatron/core/datasets/indexed_dataset.py writes it: magic, version, a code for the type, the
/// number of sequences and that of document bounds, then the length of each sequence (int32), its first byte
/// in the data (int64), and the document bounds (int64), each a number of sequences.
constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
constexpr std::uint64_t kIndexHead = 34;
constexpr std::int64_t kMaxIndexed = std::int64_t{1} << 40;
constexpr std::size_t kScanBytes = std::size_t{1} << 20;

template <class T>
T number_at(const std::vector<char>& bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

std::optional<c10::ScalarType> type_of_code(std::uint8_t code) {
  switch (code) {
    case 1:
      return c10::kByte;
    case 2:
      return c10::kChar;
    case 3:
      return c10::kShort;
    case 4:
      return c10::kInt;
    case 5:
      return c10::kLong;
    case 8:
      return c10::kUInt16;
    default:
      return std::nullopt;  // 6 and 7 are floats
  }
}

/// The parts of an index, each checked.
class MegatronIndex {
 public:
  MegatronIndex(const std::string& path, std::vector<char> bytes) : path_(path), bytes_(std::move(bytes)) {
    if (bytes_.size() < kIndexHead || std::memcmp(bytes_.data(), kIndexMagic.data(), kIndexMagic.size()) != 0)
      throw FileError(path_, 0, "this is not an index of tokens: it does not begin with MMIDIDX");
    const auto version = number_at<std::uint64_t>(bytes_, 9);
    if (version != 1)
      throw FileError(path_, 9, "version " + std::to_string(version) + " of the index is unknown");
    const auto code = number_at<std::uint8_t>(bytes_, 17);
    const auto dtype = type_of_code(code);
    if (!dtype) throw FileError(path_, 17, "type code " + std::to_string(code) + " is not one of tokens");
    dtype_ = *dtype;
    sequences_ = count_at(18);
    bounds_ = count_at(26);
    const std::uint64_t needed = bounds_at(bounds_);
    if (needed > bytes_.size()) {
      throw FileError(path_, 18,
                      "the index needs " + std::to_string(needed) + " bytes for " +
                          std::to_string(sequences_) + " sequences and " + std::to_string(bounds_) +
                          " document bounds, but has " + std::to_string(bytes_.size()));
    }
  }

  c10::ScalarType dtype() const { return dtype_; }

  /// The end of each sequence in tokens.
  std::vector<std::int64_t> sequence_ends() const {
    const auto item = static_cast<std::int64_t>(c10::elementSize(dtype_));
    std::vector<std::int64_t> ends;
    ends.reserve(static_cast<std::size_t>(sequences_));
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < sequences_; ++i) {
      const std::uint64_t length_at = kIndexHead + static_cast<std::uint64_t>(i) * 4;
      const auto length = number_at<std::int32_t>(bytes_, length_at);
      const auto begin = number_at<std::int64_t>(bytes_, pointer_at(i));
      if (length < 0)
        throw FileError(path_, length_at,
                        "sequence " + std::to_string(i) + " has " + std::to_string(length) + " tokens");
      if (begin != tokens * item) {
        throw FileError(path_, pointer_at(i),
                        "sequence " + std::to_string(i) + " begins at byte " + std::to_string(begin) +
                            ", but those before it end at byte " + std::to_string(tokens * item));
      }
      tokens += length;
      ends.push_back(tokens);
    }
    return ends;
  }

  /// The end of each document in tokens, from those of sequences.
  std::vector<std::int64_t> document_ends(const std::vector<std::int64_t>& sequences) const {
    if (bounds_ == 0) return sequences;
    std::vector<std::int64_t> ends;
    ends.reserve(static_cast<std::size_t>(bounds_));
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < bounds_; ++i) {
      const auto bound = number_at<std::int64_t>(bytes_, bounds_at(i));
      const bool first_is_zero = i > 0 || bound == 0;
      if (!first_is_zero || bound < last || bound > sequences_) {
        throw FileError(path_, bounds_at(i),
                        "document bound " + std::to_string(i) + " is " + std::to_string(bound) +
                            ", but must be in [" + std::to_string(last) + ", " +
                            std::to_string(i == 0 ? 0 : sequences_) + "]");
      }
      if (i > 0) ends.push_back(bound == 0 ? 0 : sequences[static_cast<std::size_t>(bound) - 1]);
      last = bound;
    }
    if (last != sequences_) {
      throw FileError(path_, bounds_at(bounds_ - 1),
                      "the documents end at sequence " + std::to_string(last) + ", but there are " +
                          std::to_string(sequences_));
    }
    return ends;
  }

 private:
  std::int64_t count_at(std::uint64_t offset) const {
    const auto count = number_at<std::int64_t>(bytes_, offset);
    if (count >= 0 && count <= kMaxIndexed) return count;
    throw FileError(path_, offset, "the index cannot have " + std::to_string(count) + " entries");
  }
  std::uint64_t pointer_at(std::int64_t i) const {
    return kIndexHead + 4 * static_cast<std::uint64_t>(sequences_) + 8 * static_cast<std::uint64_t>(i);
  }
  std::uint64_t bounds_at(std::int64_t i) const {
    return pointer_at(sequences_) + 8 * static_cast<std::uint64_t>(i);
  }

  std::string path_;
  std::vector<char> bytes_;
  c10::ScalarType dtype_ = c10::kLong;
  std::int64_t sequences_ = 0;
  std::int64_t bounds_ = 0;
};

/// The stamp of a regular file.
FileStamp regular_stamp(const File& file) {
  const FileStamp stamp = file.stamp();
  if (!stamp.is_regular)
    throw FileError(FileError::Kind::kSystem, file.path(),
                    "token files need random access, but this is not a regular file");
  return stamp;
}

TokenFile open_raw(const std::string& path, std::optional<c10::ScalarType> dtype) {
  if (!dtype)
    throw FileError(FileError::Kind::kDamaged, path, "the type of its tokens is not known; pass `dtype`");
  const FileStamp stamp = regular_stamp(File(path));
  const std::uint64_t item = c10::elementSize(*dtype);
  if (stamp.size % item != 0) {
    throw FileError(FileError::Kind::kDamaged, path,
                    "its size, " + std::to_string(stamp.size) + " bytes, is not a multiple of the " +
                        std::to_string(item) + " bytes of a token of type " + dtype_name(*dtype));
  }
  return {path, stamp, stamp, *dtype, static_cast<std::int64_t>(stamp.size / item), std::nullopt};
}

TokenFile open_indexed(const std::string& path, std::optional<c10::ScalarType> dtype) {
  const File file(path);
  const FileStamp stamp = regular_stamp(file);
  std::vector<char> bytes(static_cast<std::size_t>(stamp.size));
  read_whole(file, bytes, 0);
  const MegatronIndex index(path, std::move(bytes));
  if (dtype && *dtype != index.dtype()) {
    throw FileError(FileError::Kind::kDamaged, path,
                    "its tokens are " + dtype_name(index.dtype()) + ", but `dtype` is " + dtype_name(*dtype));
  }
  const std::vector<std::int64_t> sequences = index.sequence_ends();
  TokenFile result = open_raw(path.substr(0, path.size() - kIndexSuffix.size()) + ".bin", index.dtype());
  const std::int64_t tokens = sequences.empty() ? 0 : sequences.back();
  if (tokens != result.tokens) {
    throw FileError(FileError::Kind::kDamaged, result.data_path,
                    "it has " + std::to_string(result.tokens) + " tokens, but its index " + path +
                        " counts " + std::to_string(tokens));
  }
  result.stamp = stamp;
  result.ends = index.document_ends(sequences);
  return result;
}

using Report = std::function<void(std::uint64_t)>;

/// The documents' ends, found by reading; `report` is told how many tokens were read.
std::vector<std::int64_t> scan_for_documents(const File& opened, const TokenFile& file, std::int64_t token,
                                             const Report& report) {
  const auto item = static_cast<std::int64_t>(c10::elementSize(file.dtype));
  const auto block = static_cast<std::int64_t>(kScanBytes) / item;
  std::vector<char> bytes(kScanBytes);
  std::vector<std::int64_t> ends;
  for (std::int64_t first = 0; first < file.tokens; first += block) {
    report(static_cast<std::uint64_t>(first));
    const std::int64_t count = std::min(block, file.tokens - first);
    read_whole(opened, std::span(bytes).first(static_cast<std::size_t>(count * item)),
               static_cast<std::uint64_t>(first * item));
    std::int64_t next = 0;
    while ((next = find_token(bytes.data(), file.dtype, next, count, token)) < count)
      ends.push_back(first + ++next);
  }
  if (file.tokens > 0 && (ends.empty() || ends.back() != file.tokens)) ends.push_back(file.tokens);
  return ends;
}

/// The ends of documents in `bytes`, which may be anything; nullopt unless they can be those of `tokens`
/// tokens.
std::optional<std::vector<std::int64_t>> decode_ends(std::span<const char> bytes, std::int64_t tokens) {
  std::vector<std::int64_t> ends(bytes.size() / sizeof(std::int64_t));
  if (ends.empty() || ends.size() * sizeof(std::int64_t) != bytes.size()) return std::nullopt;
  std::memcpy(ends.data(), bytes.data(), bytes.size());
  const bool increase = std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()) == ends.end();
  if (!increase || ends.front() <= 0 || ends.back() != tokens) return std::nullopt;
  return ends;
}

}  // namespace

TokenFile open_token_file(const std::string& path, std::optional<c10::ScalarType> dtype) {
  return path.ends_with(kIndexSuffix) ? open_indexed(path, dtype) : open_raw(path, dtype);
}

std::vector<std::int64_t> find_documents(const TokenFile& file, std::int64_t token,
                                         const std::function<void()>& look) {
  const File opened(file.data_path);
  std::vector<std::int64_t> ends;
  const auto scan = [&](const Report& report) {
    ends = scan_for_documents(opened, file, token, [&](std::uint64_t tokens) {
      if (look) look();
      report(tokens);
    });
    const auto* const bytes = reinterpret_cast<const char*>(ends.data());
    return std::vector<char>(bytes, bytes + ends.size() * sizeof(std::int64_t));
  };
  const std::string key =
      "documents 1 " + std::to_string(token) + " " + dtype_name(file.dtype) + " " + opened.version();
  const auto accept = [&](std::span<const char> bytes) {
    auto found = decode_ends(bytes, file.tokens);
    if (!found) return false;
    ends = *std::move(found);
    return true;
  };
  share_on_host(key, static_cast<std::uint64_t>(file.tokens) * sizeof(std::int64_t), accept, scan, look);
  return ends;
}

}  // namespace torch_distinput
