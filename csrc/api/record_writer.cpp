// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/record_writer.h"

#include <limits>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "io/record_writer.h"
#include "io/wire.h"
#include "kernels/dense.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

constexpr const char* kExampleName = "example";
constexpr const char* kWriterName = "TFRecordWriter";

// Field numbers of tensorflow/core/example/feature.proto.
constexpr std::uint32_t kBytesList = 1;
constexpr std::uint32_t kFloatList = 2;
constexpr std::uint32_t kInt64List = 3;

Compression compression_of(const std::optional<std::string>& name) {
  const std::string type = name.value_or("");
  TORCH_CHECK_VALUE(type.empty() || type == "GZIP" || type == "ZLIB", kWriterName,
                    ": `compression` must be None, \"GZIP\" or \"ZLIB\", but is \"", type, "\".");
  if (type.empty()) return Compression::kNone;
  return type == "GZIP" ? Compression::kGzip : Compression::kZlib;
}

template <class Number>
const Number* items_of(const at::Tensor& tensor) {
  return static_cast<const Number*>(tensor.const_data_ptr());
}

/// The message of the one feature in `values`, whose place is `leaf`.
struct FeatureText {
  const Structure& structure;
  std::size_t leaf;

  std::string operator()(const at::Tensor& values) const {
    const at::Tensor& host = dense(values);
    std::string packed;
    WireWriter numbers(packed);
    const bool whole = c10::isIntegralType(host.scalar_type(), /*includeBool=*/true);
    TORCH_CHECK_TYPE(whole || c10::isFloatingType(host.scalar_type()), kExampleName, ": ", name(),
                     " must be integers, real numbers or strings, but is torch.",
                     dtype_name(host.scalar_type()), ".");
    if (host.numel() == 0) return {};
    if (whole) {
      if (host.scalar_type() == at::kUInt64) check_range(host);
      const at::Tensor wide = host.to(at::kLong).contiguous();
      for (std::int64_t i = 0; i < wide.numel(); ++i)
        numbers.varint(static_cast<std::uint64_t>(items_of<std::int64_t>(wide)[i]));
    } else {
      const at::Tensor single = host.to(at::kFloat).contiguous();
      packed.assign(reinterpret_cast<const char*>(items_of<float>(single)), single.nbytes());
    }
    return list(whole ? kInt64List : kFloatList, packed);
  }
  std::string operator()(const Bytes& strings) const {
    if (strings.count() == 0) return {};
    std::string values;
    WireWriter writer(values);
    for (std::int64_t i = 0; i < strings.count(); ++i) writer.bytes(1, strings[i]);
    return message(kBytesList, values);
  }
  template <class Other>
  std::string operator()(const Other& other) const {
    C10_THROW_ERROR(TypeError, std::string(kExampleName) + ": " + name() + " is a " +
                                   std::string(leaf_kind(Leaf(other))) +
                                   " leaf, but must be numbers or strings.");
  }

 private:
  std::string name() const { return leaf_name(structure, leaf); }

  const at::Tensor& dense(const at::Tensor& values) const {
    TORCH_CHECK_TYPE(values.layout() == at::kStrided && values.device().is_cpu(), kExampleName, ": ", name(),
                     " must be a dense tensor in host memory.");
    return values;
  }
  void check_range(const at::Tensor& values) const {
    const at::Tensor numbers = values.contiguous();
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
      const std::uint64_t number = items_of<std::uint64_t>(numbers)[i];
      TORCH_CHECK_VALUE(number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
                        kExampleName, ": ", name(), " must fit in int64, but holds ", number, ".");
    }
  }
  /// A Feature whose list holds `packed` numbers.
  static std::string list(std::uint32_t field, const std::string& packed) {
    std::string values;
    WireWriter(values).bytes(1, packed);
    return message(field, values);
  }
  static std::string message(std::uint32_t field, const std::string& body) {
    std::string text;
    WireWriter(text).bytes(field, body);
    return text;
  }
};

}  // namespace

std::string example(const Element& values) {
  const Structure& structure = *values.structure();
  bool flat = structure.kind() == Structure::Kind::kDict;
  for (const StructurePtr& child : structure.children())
    flat = flat && child->kind() == Structure::Kind::kLeaf;
  TORCH_CHECK_VALUE(flat, kExampleName, ": the values must be a dict of numbers or strings, but are ",
                    structure.str(), ".");
  std::string features;
  for (std::size_t leaf = 0; leaf < values.leaves().size(); ++leaf) {
    std::string entry;
    WireWriter writer(entry);
    writer.bytes(1, structure.keys()[leaf]);
    writer.bytes(2, std::visit(FeatureText{structure, leaf}, values.leaves()[leaf]));
    WireWriter(features).bytes(1, entry);
  }
  std::string message;
  WireWriter(message).bytes(1, features);
  return message;
}

TFRecordWriter::TFRecordWriter(const std::string& path, const std::optional<std::string>& compression) {
  TORCH_CHECK_VALUE(!path.empty() && path.find('\0') == std::string::npos, kWriterName,
                    ": `path` must be a name without NUL bytes that is not empty.");
  const Compression packing = compression_of(compression);
  writer_ = with_file_errors(
      kWriterName, [&] { return std::make_unique<RecordWriter>(path, packing, interrupt_check()); });
}

TFRecordWriter::~TFRecordWriter() = default;
TFRecordWriter::TFRecordWriter(TFRecordWriter&&) noexcept = default;
TFRecordWriter& TFRecordWriter::operator=(TFRecordWriter&&) noexcept = default;

void TFRecordWriter::write(std::string_view record) {
  if (writer_ == nullptr || !writer_->is_open())
    throw FailedPreconditionError(std::string(kWriterName) + ": `write` was called after `close`.");
  with_file_errors(kWriterName, [&] { writer_->write({record.data(), record.size()}); });
}

void TFRecordWriter::close() {
  if (writer_ != nullptr) with_file_errors(kWriterName, [&] { writer_->close(); });
}

}  // namespace torch_distinput
