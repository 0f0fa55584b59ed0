// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "torch_distinput/error.h"

/// \file
/// The one format of what ranks send each other: numbers in decimal digits, and strings of any bytes after
/// their length, each number followed by a space. Such a text is untrusted, because a store
/// asks no writer for a password: a reader checks all of it.

namespace torch_distinput {

/// A text of another rank breaks a rule of its format.
class PeerTextError : public DistributedDatasetError {
 public:
  using DistributedDatasetError::DistributedDatasetError;
};

/// Writes what PeerTextReader reads.
class PeerTextWriter {
 public:
  void integer(std::integral auto value) { text_ += std::to_string(value) + ' '; }
  void flag(bool value) { integer(value ? 1 : 0); }
  void string(std::string_view value) {
    integer(value.size());
    text_ += value;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Reads a text piece by piece. Every function throws PeerTextError, which says whose text it is, what a
/// piece must be and what it is. What is left of the text bounds every count and length, so that a caller may
/// allocate by them.
class PeerTextReader {
 public:
  /// `whose`: what the text is, with its rank and key, for messages. `text` must outlive this object and the
  /// strings that it returns.
  PeerTextReader(std::string_view text, std::string whose) : left_(text), whose_(std::move(whose)) {}

  // In messages, `what` is the name of the piece.

  /// An integer in [`least`, `most`].
  std::int64_t integer(const char* what, std::int64_t least, std::int64_t most);
  /// Any integer of 64 bits without a sign.
  std::uint64_t bits(const char* what);
  bool flag(const char* what) { return integer(what, 0, 1) == 1; }
  /// The number of entries that follow, each a number or a string and so at least two bytes.
  std::size_t count(const char* what);
  std::string_view string(const char* what);

  bool ended() const noexcept { return left_.empty(); }
  /// Throws unless the whole text has been read.
  void end() const;
  /// Throws: `what` must be as `rule` says, but is `found`.
  [[noreturn]] void fail(const char* what, const std::string& rule, const std::string& found) const;
  /// For messages about the whole text.
  const std::string& whose() const noexcept { return whose_; }

 private:
  /// The digits up to the next space, which are removed with it.
  std::string_view word(const char* what);

  std::string_view left_;
  std::string whose_;
};

}  // namespace torch_distinput
