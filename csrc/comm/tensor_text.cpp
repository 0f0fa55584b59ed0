// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/tensor_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

constexpr std::size_t kMaxDims = 64;
/// Limit on the bytes of a tensor, counting dims of 0 as 1, so that strides of empty tensors fit in 64 bits
/// too.
constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 62;

/// The bytes of a tensor's elements.
std::string_view bytes_of(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::size_t>(tensor.nbytes())};
}

std::vector<std::int64_t> read_dims(PeerTextReader& reader, std::int64_t item) {
  const std::size_t count = reader.count("the number of dims");
  if (count > kMaxDims)
    reader.fail("the number of dims", "at most " + std::to_string(kMaxDims), std::to_string(count));
  std::vector<std::int64_t> dims;
  std::int64_t bytes = item;
  while (dims.size() < count) {
    const std::int64_t dim = reader.integer("a dim", 0, kMaxTensorBytes);
    dims.push_back(dim);
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim, 1), &bytes) || bytes > kMaxTensorBytes)
      reader.fail("the size of a tensor", "at most 2**62 bytes", "larger");
  }
  return dims;
}

at::Tensor read_strided(PeerTextReader& reader) {
  const c10::ScalarType dtype = read_dtype(reader);
  const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
  const std::vector<std::int64_t> dims = read_dims(reader, item);
  const std::string_view elements = reader.string("the elements of a tensor");
  std::int64_t bytes = item;
  for (const std::int64_t dim : dims) bytes *= dim;
  if (std::ssize(elements) != bytes) {
    reader.fail("the elements of a tensor", std::to_string(bytes) + " bytes",
                std::to_string(elements.size()) + " bytes");
  }
  // Any other byte is not a valid bool, in C++ and in torch's kernels.
  if (dtype == c10::ScalarType::Bool &&
      std::any_of(elements.begin(), elements.end(), [](char byte) { return byte != 0 && byte != 1; }))
    reader.fail("a bool", "0 or 1", "another byte");
  at::Tensor tensor = at::empty(dims, dtype);
  if (bytes > 0) std::memcpy(tensor.mutable_data_ptr(), elements.data(), elements.size());
  return tensor;
}

void write_strided(const at::Tensor& tensor, PeerTextWriter& writer) {
  const at::Tensor own = tensor.resolve_conj().resolve_neg().cpu().contiguous();
  writer.integer(static_cast<std::int64_t>(own.scalar_type()));
  writer.integer(own.dim());
  for (const std::int64_t dim : own.sizes()) writer.integer(dim);
  writer.string(bytes_of(own));
}

/// A COO tensor is its dims, the places of its values and these.
void write_sparse(const at::Tensor& tensor, PeerTextWriter& writer) {
  writer.integer(tensor.dim());
  for (const std::int64_t dim : tensor.sizes()) writer.integer(dim);
  write_strided(tensor._indices(), writer);
  write_strided(tensor._values(), writer);
}

/// Whether `values` lie within dims `dims` at the places `indices`, a place in each column.
bool fit(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef dims) {
  if (indices.scalar_type() != at::kLong || indices.dim() != 2 || values.dim() == 0) return false;
  const auto places = static_cast<std::size_t>(indices.size(0));
  if (places > dims.size() || values.size(0) != indices.size(1)) return false;
  if (values.sizes().slice(1) != dims.slice(places)) return false;
  const auto* place = indices.const_data_ptr<std::int64_t>();
  for (std::size_t dim = 0; dim < places; ++dim) {
    for (std::int64_t i = 0; i < indices.size(1); ++i, ++place)
      if (*place < 0 || *place >= dims[dim]) return false;
  }
  return true;
}

at::Tensor read_sparse(PeerTextReader& reader) {
  const std::vector<std::int64_t> dims = read_dims(reader, 1);
  const at::Tensor indices = read_strided(reader);
  const at::Tensor values = read_strided(reader);
  if (!fit(indices, values, dims)) reader.fail("a sparse tensor", "one with values in its dims", "another");
  return at::_sparse_coo_tensor_unsafe(indices, values, dims);
}

at::Tensor read_tensor(PeerTextReader& reader) {
  return reader.flag("whether a tensor is sparse") ? read_sparse(reader) : read_strided(reader);
}

}  // namespace

bool is_plain(c10::ScalarType dtype) noexcept {
  switch (dtype) {
#define TDI_IS_PLAIN(type, name) case c10::ScalarType::name:
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(TDI_IS_PLAIN)
#undef TDI_IS_PLAIN
    return !c10::isQIntType(dtype);
    default:
      return false;
  }
}

c10::ScalarType read_dtype(PeerTextReader& reader) {
  constexpr auto kLast = static_cast<std::int64_t>(c10::ScalarType::NumOptions) - 1;
  const std::int64_t code = reader.integer("a dtype", 0, kLast);
  const auto dtype = static_cast<c10::ScalarType>(code);
  if (!is_plain(dtype)) reader.fail("a dtype", "one of plain numbers", "number " + std::to_string(code));
  return dtype;
}

bool can_be_encoded(const at::Tensor& tensor) {
  const bool known = tensor.layout() == at::kStrided || tensor.layout() == at::kSparse;
  return known && tensor.has_storage() == (tensor.layout() == at::kStrided) && !tensor.is_nested() &&
         is_plain(tensor.scalar_type());
}

std::string encode_tensors(const std::vector<at::Tensor>& tensors) {
  PeerTextWriter writer;
  writer.integer(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (!can_be_encoded(tensor)) {
      C10_THROW_ERROR(
          TypeError,
          "a value for other processes must be a dense or sparse tensor of plain numbers, but is a " +
              std::string(tensor.toString()) + ".");
    }
    writer.flag(tensor.is_sparse());
    if (tensor.is_sparse())
      write_sparse(tensor.detach(), writer);
    else
      write_strided(tensor.detach(), writer);
  }
  return writer.take();
}

std::vector<at::Tensor> decode_tensors(std::string_view text, const std::string& whose) {
  PeerTextReader reader(text, whose);
  const std::size_t count = reader.count("the number of tensors");
  std::vector<at::Tensor> tensors;
  while (tensors.size() < count) tensors.push_back(read_tensor(reader));
  reader.end();
  return tensors;
}

}  // namespace torch_distinput
