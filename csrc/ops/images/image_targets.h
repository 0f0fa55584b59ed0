// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/images/edit.h"
#include "ops/images/image_steps.h"
#include "runtime/buffer_pool.h"
#include "torch_distinput/element.h"
#include "torch_distinput/images.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// The leaves that follow one image.
struct TargetLeaves {
  std::vector<std::size_t> masks;
  std::vector<std::size_t> boxes;
  BoxFormat box_format = BoxFormat::kXyxy;
  bool operator==(const TargetLeaves&) const = default;
};

/// What follows which images at some place of a pipeline.
struct DeclaredTargets {
  std::map<std::size_t, TargetLeaves> by_image;  ///< under the leaf of the image
  std::string lost_at;  ///< the op that changed the structure after a declaration; empty: none did

  /// Whether there was no declaration at all.
  bool none() const { return by_image.empty() && lost_at.empty(); }
  /// The masks of all images.
  std::set<std::size_t> masks() const;
  /// What follows the image of leaf `leaf`.
  TargetLeaves of(std::size_t leaf) const;
};

/// Finds the leaves that `step` names for the image of leaf `image`, of dims `dims`. Throws
/// c10::ValueError for a leaf that cannot hold masks or boxes, a mask of other dims, and a leaf that is named
/// twice or, in `others`, is an image or follows another one.
TargetLeaves find_targets(const ImageTargets& step, const ElementSpec& spec, std::size_t image,
                          ImageDims dims, const DeclaredTargets& others);

/// Throws c10::ValueError if leaf `targets` of `spec` cannot follow `step`.
void check_targets(const ImageStep& step, const TargetLeaves& targets, const ElementSpec& spec);

/// The type of the masks of an image that has become `dims`. REQUIRES: `spec` is that of a mask.
TensorSpec mask_spec_after(const LeafSpec& spec, ImageDims dims);

/// The mask `leaf`, decoded where it is encoded, after `edits` of its image of `extent`; in memory of `pool`.
/// Throws ImageError for a mask that is damaged or of another size.
at::Tensor edited_mask(const Leaf& leaf, Extent extent, std::span<const Edit> edits, BufferPool& pool);

/// The boxes `leaf` after `edits` of their image of `extent`; in memory of `pool`. Throws ImageError for a
/// leaf that is not [n, 4].
at::Tensor edited_boxes(const Leaf& leaf, BoxFormat format, Extent extent, std::span<const Edit> edits,
                        BufferPool& pool);

}  // namespace torch_distinput
