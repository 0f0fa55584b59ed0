// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "kernels/preprocessing/encode.h"
#include "kernels/preprocessing/hashes.h"
#include "torch_distinput/preprocessing.h"

namespace torch_distinput::preprocessing {

/// A layer with the name that messages and the pipeline's identity need.
class NamedLayer : public Layer {
 public:
  std::string name() const override { return description_; }

 protected:
  /// `kind`: the class, for messages. `description`: kind and options.
  NamedLayer(std::string kind, std::string description)
      : kind_(std::move(kind)), description_(std::move(description)) {}
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
  std::string description_;
};

/// Builds `Kind(name=value, ...)`.
class Description {
 public:
  explicit Description(const std::string& kind) { text_ << kind << '('; }
  template <class Value>
  Description& add(const char* name, const Value& value) {
    text_ << (first_ ? "" : ", ") << name << '=' << value;
    first_ = false;
    return *this;
  }
  /// Mode, dtype and layout; nothing for kInt without another dtype.
  Description& add(const OutputOptions& output);
  Description& add(const Vocabulary& vocabulary);
  /// Values, as a hash of their bytes.
  Description& add_hash(const char* name, const at::Tensor& values);
  std::string str() const { return text_.str() + ")"; }

 private:
  std::ostringstream text_;
  bool first_ = true;
};

/// Throws c10::ValueError naming `kind` unless there is one input.
const Leaf& only_input(std::span<const Leaf> inputs, const std::string& kind);

/// Chooses bins by FarmHash, or with a salt by SipHash.
class Hasher {
 public:
  Hasher(std::optional<SipKey> salt, std::int64_t bins)
      : salt_(salt), bins_(static_cast<std::uint64_t>(bins)) {}
  std::int64_t bin(std::string_view string) const noexcept {
    const std::uint64_t hash = salt_ ? sip_hash(string, *salt_) : fingerprint64(string);
    return static_cast<std::int64_t>(hash % bins_);
  }
  /// The bin of the decimal text of `value`.
  std::int64_t bin(std::int64_t value) const noexcept;

 private:
  std::optional<SipKey> salt_;
  std::uint64_t bins_;
};

}  // namespace torch_distinput::preprocessing
