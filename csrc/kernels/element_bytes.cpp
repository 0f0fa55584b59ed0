// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/element_bytes.h"

#include "kernels/dense.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

void append(const at::Tensor& tensor, std::string& out) {
  const at::Tensor host = tensor.cpu();
  const std::size_t before = out.size();
  out.resize(before + host.nbytes());
  copy_items(host, out.data() + before);
}

struct Appender {
  std::string& out;
  void operator()(const at::Tensor& leaf) const { append(leaf, out); }
  void operator()(const Bytes& leaf) const {
    append(leaf.offsets, out);
    append(leaf.values, out);
  }
  void operator()(const Ragged& leaf) const {
    append(leaf.offsets, out);
    append(leaf.values, out);
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
