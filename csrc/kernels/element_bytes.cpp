// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/element_bytes.h"

#include "kernels/dense.h"
#include "kernels/leaf_rows.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

void append(const at::Tensor& tensor, std::string& out) {
  const at::Tensor host = tensor.cpu();
  const std::size_t before = out.size();
  out.resize(before + host.nbytes());
  copy_items(host, out.data() + before);
}

void append(std::int64_t number, std::string& out) { out += std::to_string(number) + ' '; }

struct Appender {
  std::string& out;
  void operator()(const at::Tensor& leaf) const { append(leaf, out); }
  void operator()(const Bytes& leaf) const {
    for (std::int64_t i = 0; i < leaf.count(); ++i) {
      append(static_cast<std::int64_t>(leaf[i].size()), out);
      out += leaf[i];
    }
  }
  void operator()(const Ragged& leaf) const {
    for (std::int64_t row = 0; row + 1 < leaf.offsets.size(0); ++row) {
      const at::Tensor items = row_of(leaf, row);
      append(items.size(0), out);
      append(items, out);
    }
  }
  void operator()(const Sparse& leaf) const { append(leaf.value.to_dense(), out); }
  void operator()(const Opaque& leaf) const { out += leaf.type_name; }
  void operator()(const NodePtr&) const {}
};

}  // namespace

std::string element_bytes(const Element& element) {
  std::string out = to_string(spec_of(element)) + '\n';
  for (const Leaf& leaf : element.leaves()) std::visit(Appender{out}, leaf);
  return out;
}

}  // namespace torch_distinput
