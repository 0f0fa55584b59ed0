// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/preprocessing/layer.h"

#include <charconv>
#include <iomanip>

#include <c10/util/Exception.h>

#include "base/hash.h"
#include "torch_distinput/spec.h"

namespace torch_distinput::preprocessing {
namespace {

constexpr const char* kModes[] = {"int", "one_hot", "multi_hot", "count", "tf_idf"};

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << std::hex << std::setw(16) << std::setfill('0') << value;
  return text.str();
}

}  // namespace

Layer::~Layer() = default;

void Layer::apply(std::span<Element> elements) const {
  for (Element& element : elements) {
    const Structure::Kind kind = element.structure()->kind();
    const bool is_flat = element.structure()->children().size() == element.leaves().size();
    TORCH_CHECK_TYPE(kind == Structure::Kind::kLeaf ||
                         ((kind == Structure::Kind::kTuple || kind == Structure::Kind::kList) && is_flat),
                     name(), ": the element must be one leaf, but is ", element.structure()->str(),
                     "; call the layer on a part of it in a function for `map`.");
    std::vector<Leaf> results{call(element.leaves(), {})};
    element = Element(Structure::leaf(), std::move(results));
  }
}

Description& Description::add(const OutputOptions& output) {
  add("output_mode", kModes[static_cast<std::size_t>(output.mode)]);
  add("dtype", dtype_name(output.dtype));
  if (output.sparse) add("sparse", "True");
  return *this;
}

Description& Description::add(const Vocabulary& vocabulary) {
  return add("vocabulary", std::to_string(vocabulary.size()) + " tokens #" + hex(vocabulary.hash()));
}

Description& Description::add_hash(const char* name, const at::Tensor& values) {
  const at::Tensor host = values.cpu().contiguous();
  Hash hash;
  hash.add({static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
  return add(name, std::to_string(host.numel()) + " numbers #" + hex(hash.value()));
}

const Leaf& only_input(std::span<const Leaf> inputs, const std::string& kind) {
  TORCH_CHECK_VALUE(inputs.size() == 1, kind, ": the layer takes one input, but got ", inputs.size(), ".");
  return inputs.front();
}

std::int64_t Hasher::bin(std::int64_t value) const noexcept {
  char text[24];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return bin(std::string_view(text, static_cast<std::size_t>(end - text)));
}

}  // namespace torch_distinput::preprocessing
