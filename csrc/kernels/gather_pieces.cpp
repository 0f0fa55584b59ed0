// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {
namespace {

/// The op that cuts elements, for messages.
constexpr const char* kOp = "pack";

}  // namespace

void Plan::gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                         std::span<char* const> to) const {
  std::vector<std::int64_t> numbers;
  for (const Segment& piece : pieces) {
    if (numbers.empty() || numbers.back() != piece.element) numbers.push_back(piece.element);
  }
  std::vector<std::int64_t> positions = numbers;
  lengths(leaf, positions);
  const std::vector<std::int64_t> expected = positions;
  positions = numbers;
  const std::vector<Element> elements = fetch(positions);
  const auto item = static_cast<std::int64_t>(c10::elementSize(dtype));
  std::size_t held = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].element != numbers[held]) ++held;
    const at::Tensor rows = dense_leaf(elements[held], leaf, kOp, "cut").contiguous();
    TORCH_CHECK_TYPE(rows.dim() == 1 && rows.scalar_type() == dtype, kOp, ": ",
                     leaf_name(*elements[held].structure(), leaf), " of element ", numbers[held],
                     " must be a sequence of ", dtype_name(dtype), ", but is ",
                     to_string(spec_of(Element(rows))), ".");
    TORCH_CHECK_VALUE(rows.size(0) == expected[held], kOp, ": ", leaf_name(*elements[held].structure(), leaf),
                      " of element ", numbers[held], " has ", rows.size(0), " rows, but was known to have ",
                      expected[held], ".");
    if (pieces[i].begin == pieces[i].end) continue;
    const ReadGuard memory(rows);
    std::memcpy(to[i], memory.data() + pieces[i].begin * item,
                static_cast<std::size_t>((pieces[i].end - pieces[i].begin) * item));
  }
}

}  // namespace torch_distinput
