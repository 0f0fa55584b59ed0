// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <map>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "io/file_error.h"
#include "sources/arrays/row_files_node.h"
#include "sources/records/file_errors.h"
#include "sources/tokens/token_arguments.h"
#include "sources/tokens/token_file.h"
#include "sources/tokens/token_sources.h"

namespace torch_distinput {
namespace {

struct TokenRowFile final : RowFile {
  c10::ScalarType dtype = c10::kUInt16;
  TokenRows token_rows{0, {}, {}};
};

const TokenRowFile& token_row_file(const RowFile& file) { return static_cast<const TokenRowFile&>(file); }

/// Memory for the tokens of one row as they are stored, kept by each thread.
std::span<char> token_scratch(std::size_t bytes) {
  thread_local std::vector<char> memory;
  if (memory.size() < bytes) memory.resize(bytes);
  return std::span(memory).first(bytes);
}

class StoredTokenFiles final : public StoredTokens {
 public:
  explicit StoredTokenFiles(std::vector<RowFilePtr> files) : files_(std::move(files)) {}

  std::int64_t size() const override { return files_.size(); }
  bool blocks() const override { return true; }
  bool is_remote() const override { return files_.is_remote(); }

  SourceRow source_row(std::int64_t position) const override { return files_.source_row(position); }

  std::int64_t length(std::int64_t position) const override {
    const RowFiles::Place place = files_.place_of(position);
    return token_row_file(files_[place.file]).token_rows[place.row].count;
  }

  void will_read(std::span<const Segment> pieces) const override {
    if (!files_.is_remote()) return;
    std::map<std::size_t, std::vector<ByteRange>> wanted;
    for (const Segment& piece : pieces) {
      const RowFiles::Place place = files_.place_of(piece.element);
      const TokenRowFile& file = token_row_file(files_[place.file]);
      const std::int64_t begin = file.token_rows[place.row].begin + piece.begin;
      const auto item = static_cast<std::uint64_t>(c10::elementSize(file.dtype));
      wanted[place.file].push_back({static_cast<std::uint64_t>(begin) * item,
                                    static_cast<std::uint64_t>(piece.end - piece.begin) * item});
    }
    for (const auto& [file, ranges] : wanted) files_.open(file)->will_read(ranges);
  }

  void read(std::span<const Segment> pieces, std::int64_t limit, const TakePiece& take) const override {
    with_file_errors(kTokenDatasetName, [&] {
      will_read(pieces);
      FilePtr opened;
      std::size_t number = 0;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const RowFiles::Place place = files_.place_of(pieces[i].element);
        if (!opened || number != place.file) opened = files_.open(number = place.file);
        const TokenRowFile& file = token_row_file(files_[number]);
        const std::int64_t begin = file.token_rows[place.row].begin + pieces[i].begin;
        const std::int64_t count = pieces[i].end - pieces[i].begin;
        const auto item = static_cast<std::int64_t>(c10::elementSize(file.dtype));
        const std::span<char> tokens = token_scratch(static_cast<std::size_t>(count * item));
        read_whole(*opened, tokens, static_cast<std::uint64_t>(begin * item));
        const std::int64_t bad = take(i, tokens.data(), count);
        if (bad >= 0) refuse(file, begin + bad, token_at(tokens.data(), file.dtype, bad), limit);
      }
    });
  }

 private:
  [[noreturn]] static void refuse(const TokenRowFile& file, std::int64_t index, std::int64_t token,
                                  std::int64_t limit) {
    const auto offset = static_cast<std::uint64_t>(index) * c10::elementSize(file.dtype);
    throw FileError(file.data_path, offset,
                    "token " + std::to_string(index) + " is " + std::to_string(token) +
                        ", but tokens must be in [0, " + std::to_string(limit) + ")");
  }

  RowFiles files_;
};

class TokenFormat final : public RowFormat {
 public:
  TokenFormat(std::optional<c10::ScalarType> dtype, const TokenOptions& options)
      : dtype_(dtype), options_(options) {}

  std::string name() const override { return kTokenDatasetName; }
  std::string arguments() const override {
    return token_arguments(dtype_ ? "dtype=" + dtype_name(*dtype_) : "", options_);
  }
  SpecPtr spec() const override { return token_spec(options_.sequence_length, options_.output_dtype); }

  RowFilePtr open(const std::string& path, const std::function<void()>& look) const override {
    TokenFile file = open_token_file(path, dtype_);
    auto rows = std::make_shared<TokenRowFile>();
    rows->token_rows = TokenRows(file.tokens, documents(path, file, look), cuts_of(options_));
    rows->path = path;
    rows->stamp = file.stamp;
    rows->data_path = file.data_path;
    rows->data_stamp = file.data_stamp;
    rows->rows = rows->token_rows.size();
    rows->spec = spec();
    rows->dtype = file.dtype;
    return rows;
  }

  PlanPtr plan(std::vector<RowFilePtr> files, std::shared_ptr<BufferPool> pool) const override {
    const c10::ScalarType from = files.empty() ? c10::kLong : token_row_file(*files.front()).dtype;
    for (const RowFilePtr& file : files) {
      const c10::ScalarType here = token_row_file(*file).dtype;
      if (here == from) continue;
      throw FileError(FileError::Kind::kDamaged, file->path,
                      "its tokens are " + dtype_name(here) + ", but those of " + files.front()->path +
                          " are " + dtype_name(from));
    }
    return token_plan(std::make_shared<StoredTokenFiles>(std::move(files)), conversion_of(options_, from),
                      options_.sequence_length, std::move(pool));
  }

 private:
  /// The ends of the documents, where they matter.
  std::vector<std::int64_t> documents(const std::string& path, TokenFile& file,
                                      const std::function<void()>& look) const {
    const auto& boundary = options_.document_boundary;
    if (boundary && *boundary != kIndexedDocuments) return find_documents(file, *boundary, look);
    if (options_.sequence_length && !boundary) return {};
    if (file.ends) return *std::move(file.ends);
    throw FileError(
        FileError::Kind::kDamaged, path,
        "it has no index of documents; pass the token that ends a document as `document_boundary`");
  }

  std::optional<c10::ScalarType> dtype_;
  TokenOptions options_;
};

}  // namespace

namespace sources {

NodePtr token_files(NodePtr names, std::optional<c10::ScalarType> dtype, const TokenOptions& options) {
  check_token_options(options);
  TORCH_CHECK_VALUE(!dtype || stores_tokens(*dtype), kTokenDatasetName,
                    ": `dtype` must be an integer type of up to 64 bits, but is ", dtype_name(*dtype), ".");
  return read_row_files(std::move(names), std::make_shared<const TokenFormat>(dtype, options));
}

}  // namespace sources
}  // namespace torch_distinput
