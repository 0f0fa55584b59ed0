// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "io/file.h"
#include "io/utf8.h"
#include "ops/preprocessing/vocabulary.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/error.h"

namespace torch_distinput::preprocessing {
namespace {

std::string contents_of(const std::string& path) {
  const File file(path);
  std::string contents;
  std::string block(std::size_t{1} << 20, '\0');
  while (const std::size_t count = file.read(block, contents.size())) contents.append(block, 0, count);
  return contents;
}

class VocabularyReader {
 public:
  VocabularyReader(const std::string& path, bool integers) : path_(path), integers_(integers) {}

  VocabularyPtr read(std::string_view contents) {
    while (!contents.empty()) {
      const std::size_t end = contents.find('\n');
      std::string_view token = contents.substr(0, end);
      contents.remove_prefix(end == std::string_view::npos ? contents.size() : end + 1);
      if (!token.empty() && token.back() == '\r') token.remove_suffix(1);
      ++line_;
      if (token.empty()) fail("is empty, but must hold one token");
      if (integers_) {
        add_integer(token);
      } else {
        add_string(token);
      }
    }
    if (line_ == 0) throw InvalidArgumentError("vocabulary: " + path_ + ": the file holds no tokens.");
    if (integers_) return std::make_shared<const IntegerVocabulary>(std::move(numbers_));
    return std::make_shared<const StringVocabulary>(std::move(strings_));
  }

 private:
  void add_string(std::string_view token) {
    if (utf8_prefix(token) != token.size())
      fail("is not UTF-8, which vocabulary files must be: '" + escape_non_utf8(token) + "'");
    const std::int64_t before = strings_.size();
    const std::int64_t number = strings_.add(token);
    note(number, before, strings_.size(), token);
  }

  void add_integer(std::string_view token) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc{} || end != token.data() + token.size())
      fail("must be a 64-bit integer, but is '" + escape_non_utf8(token) + "'");
    const std::int64_t before = numbers_.size();
    const std::int64_t number = numbers_.add(value);
    note(number, before, numbers_.size(), token);
  }

  /// Every line before this one added a token, so that token k stands in line k + 1.
  void note(std::int64_t number, std::int64_t before, std::int64_t after, std::string_view token) const {
    if (before == after)
      fail("repeats the token '" + std::string(token) + "' of line " + std::to_string(number + 1));
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidArgumentError("vocabulary: " + path_ + ":" + std::to_string(line_) + ": the line " +
                               problem + ".");
  }

  const std::string& path_;
  bool integers_;
  std::int64_t line_ = 0;
  StringTable strings_;
  IntegerTable numbers_;
};

}  // namespace

VocabularyPtr Vocabulary::from_file(const std::string& path, bool integers) {
  const std::string contents = with_file_errors("vocabulary", [&] { return contents_of(path); });
  return VocabularyReader(path, integers).read(contents);
}

}  // namespace torch_distinput::preprocessing
