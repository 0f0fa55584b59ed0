// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/edit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/overloaded.h"
#include "kernels/images/resample.h"
#include "kernels/images/resample_blocks.h"

namespace torch_distinput {
namespace {

/// A part of an image; `box` says which one.
struct Window {
  Pixels pixels;
  Box box;

  /// The pixels of `wanted`, which must lie in `box`.
  Pixels part(const Box& wanted) const {
    return pixels.part({wanted.left - box.left, wanted.top - box.top, wanted.width, wanted.height});
  }
};

/// A resize whose input may be a part of an image with bounds between pixels.
struct Resampling {
  ResizeEdit edit;
  double left, top, right, bottom;  ///< of what is resized, in the pixels of the image
  Box inside;                       ///< the pixels that may be used

  ResizedDim across() const {
    return {left, right, inside.left, inside.right(), edit.size.width, edit.interpolation, edit.antialias};
  }
  ResizedDim down() const {
    return {top, bottom, inside.top, inside.bottom(), edit.size.height, edit.interpolation, edit.antialias};
  }
};

/// An edit as it is carried out.
using Action = std::variant<CropEdit, Resampling, FlipEdit, TurnEdit, PadEdit, ColourEdit, AffineEdit>;

/// Where pixel (x, y) of an image of `extent` is after a quarter turn counterclockwise: (y, width - 1 - x).
Box turned(const Box& box, Extent extent) {
  return {box.top, extent.width - box.right(), box.height, box.width};
}

Extent turned(Extent extent) { return {extent.height, extent.width}; }

/// The pixels of an image of `extent` that `action` needs for the pixels `out` of its result.
Box needed(const Action& action, Extent extent, const Box& out) {
  return std::visit(
      Overloaded{
          [&](const CropEdit& crop) {
            return Box{out.left + crop.box.left, out.top + crop.box.top, out.width, out.height};
          },
          [&](const Resampling& resampling) {
            const TapRange across = resampling.across().needed(out.left, out.width);
            const TapRange down = resampling.down().needed(out.top, out.height);
            return Box{across.first, down.first, across.count, down.count};
          },
          [&](const FlipEdit& flip) {
            Box box = out;
            if (flip.horizontal)
              box.left = extent.width - out.right();
            else
              box.top = extent.height - out.bottom();
            return box;
          },
          [&](const TurnEdit& turn) {
            // Turning by the rest of a whole turn leads back.
            Box box = out;
            Extent now = turn.quarters % 2 == 0 ? extent : turned(extent);
            for (int i = turn.quarters; i < 4; ++i, now = turned(now)) box = turned(box, now);
            return box;
          },
          [&](const PadEdit& pad) {
            if (pad.mode != PaddingMode::kConstant) return whole(extent);
            const std::int64_t left = std::clamp<std::int64_t>(out.left - pad.left, 0, extent.width - 1);
            const std::int64_t top = std::clamp<std::int64_t>(out.top - pad.top, 0, extent.height - 1);
            const std::int64_t right =
                std::clamp<std::int64_t>(out.right() - pad.left, left + 1, extent.width);
            const std::int64_t bottom =
                std::clamp<std::int64_t>(out.bottom() - pad.top, top + 1, extent.height);
            return Box{left, top, right - left, bottom - top};
          },
          [&](const ColourEdit& edit) { return needs_whole(edit.change) ? whole(extent) : out; },
          [&](const AffineEdit&) { return whole(extent); },
      },
      action);
}

Pixels flipped(const Pixels& from, bool horizontal) {
  const Pixels to = make_pixels(from.extent(), from.channels);
  for (std::int64_t y = 0; y < from.height; ++y) {
    if (!horizontal) {
      std::memcpy(to.line(y), from.line(from.height - 1 - y),
                  static_cast<std::size_t>(from.width * from.channels));
      continue;
    }
    const std::uint8_t* pixel = from.line(y) + (from.width - 1) * from.channels;
    std::uint8_t* out = to.line(y);
    for (std::int64_t x = 0; x < from.width; ++x, pixel -= from.channels, out += from.channels)
      copy_pixel(pixel, out, from.channels);
  }
  return to;
}

Pixels turned(const Pixels& from, int quarters) {
  if (quarters == 2) return flipped(flipped(from, true), false);
  const Pixels to = make_pixels(turned(from.extent()), from.channels);
  for (std::int64_t y = 0; y < to.height; ++y) {
    for (std::int64_t x = 0; x < to.width; ++x) {
      const std::int64_t from_x = quarters == 1 ? from.width - 1 - y : y;
      const std::int64_t from_y = quarters == 1 ? x : from.height - 1 - x;
      copy_pixel(from.line(from_y) + from_x * from.channels, to.line(y) + x * from.channels, from.channels);
    }
  }
  return to;
}

/// The place in [0, size) whose pixel is repeated at `place`; -1 for one that is filled.
std::int64_t padded_place(std::int64_t place, std::int64_t size, PaddingMode mode) {
  if (place >= 0 && place < size) return place;
  switch (mode) {
    case PaddingMode::kConstant:
      return -1;
    case PaddingMode::kEdge:
      return std::clamp<std::int64_t>(place, 0, size - 1);
    case PaddingMode::kReflect:
      return place < 0 ? -place : 2 * (size - 1) - place;
    case PaddingMode::kSymmetric:
      return place < 0 ? -1 - place : 2 * size - 1 - place;
  }
  return -1;
}

Pixels padded(const Window& in, Extent extent, const PadEdit& pad, const Box& out) {
  const std::int64_t channels = in.pixels.channels;
  const Pixels to = make_pixels({out.width, out.height}, channels);
  for (std::int64_t y = 0; y < out.height; ++y) {
    const std::int64_t from_y = padded_place(y + out.top - pad.top, extent.height, pad.mode);
    std::uint8_t* pixel = to.line(y);
    if (from_y < 0) {
      std::memset(pixel, pad.fill, static_cast<std::size_t>(out.width * channels));
      continue;
    }
    const std::uint8_t* const line = in.pixels.line(from_y - in.box.top);
    for (std::int64_t x = 0; x < out.width; ++x, pixel += channels) {
      const std::int64_t from_x = padded_place(x + out.left - pad.left, extent.width, pad.mode);
      if (from_x < 0)
        std::memset(pixel, pad.fill, static_cast<std::size_t>(channels));
      else
        copy_pixel(line + (from_x - in.box.left) * channels, pixel, channels);
    }
  }
  return to;
}

/// Lines come first, as in Pillow, unless the image in between would have more pixels than any image may, as
/// where a narrow and high one becomes wide and low. The same for all parts of a resized image.
FirstPass first_pass(const ResizedDim& across, const ResizedDim& down) {
  const std::int64_t lines_first = across.size * (down.highest - down.lowest);
  const std::int64_t columns_first = (across.highest - across.lowest) * down.size;
  return lines_first > kDefaultMaxPixels && columns_first < lines_first ? FirstPass::kColumns
                                                                        : FirstPass::kLines;
}

/// Resamples the part `out` of the resized image from the rows in `lines`, which cover `in`. REQUIRES:
/// `suits_blocks`.
Pixels resampled(LineSource& lines, const Box& in, const ResizedDim& across, const ResizedDim& down,
                 const Box& out) {
  return resample_blocks(lines, in.left, in.top, make_few_taps(across, out.left, out.width),
                         make_few_taps(down, out.top, out.height));
}

/// The same from the pixels in `in`, for any resize.
Pixels resampled(const Window& in, const ResizedDim& across, const ResizedDim& down, const Box& out) {
  if (suits_blocks(across, down)) {
    LoadedLines lines(in.pixels);
    return resampled(lines, in.box, across, down, out);
  }
  return resample(in.pixels, in.box.left, in.box.top, make_taps(across, out.left, out.width),
                  make_taps(down, out.top, out.height), first_pass(across, down));
}

/// The pixels `out` of what `action` makes of an image of `extent`. REQUIRES: `in` holds the pixels that they
/// need.
Window applied(const Action& action, const Window& in, Extent extent, const Box& out) {
  const Box from = needed(action, extent, out);
  Pixels pixels =
      std::visit(Overloaded{
                     [&](const CropEdit&) { return in.part(from); },
                     [&](const Resampling& resampling) {
                       return resampled(in, resampling.across(), resampling.down(), out);
                     },
                     [&](const FlipEdit& flip) { return flipped(in.part(from), flip.horizontal); },
                     [&](const TurnEdit& turn) { return turned(in.part(from), turn.quarters); },
                     [&](const PadEdit& pad) { return padded(in, extent, pad, out); },
                     [&](const ColourEdit& edit) {
                       const Pixels changed = change_colours(in.part(from), edit.change, edit.factor);
                       return changed.part({out.left - from.left, out.top - from.top, out.width, out.height});
                     },
                     [&](const AffineEdit& edit) { return mapped(in.part(from), edit.map).part(out); },
                 },
                 action);
  return {std::move(pixels), out};
}

/// How a source is read, and what is done then.
struct Program {
  int denominator = 1;
  std::vector<Action> actions;
  std::vector<Extent> extents;  ///< before each action, and after the last
};

Resampling whole_resampling(const ResizeEdit& edit, Extent extent) {
  return {edit, 0, 0, static_cast<double>(extent.width), static_cast<double>(extent.height), whole(extent)};
}

/// The largest denominator at which `box` stays `gap` times as large as `wanted`.
int choose_denominator(const Box& box, Extent wanted, double gap) {
  int denominator = 8;
  while (denominator > 1 &&
         (static_cast<double>(box.width) < gap * denominator * static_cast<double>(wanted.width) ||
          static_cast<double>(box.height) < gap * denominator * static_cast<double>(wanted.height)))
    denominator /= 2;
  return denominator;
}

/// The resize of `box` of an image of `extent` that was decoded at 1 / `denominator`.
Resampling reduced(const ResizeEdit& edit, const Box& box, Extent extent, int denominator) {
  const auto scaled = [&](std::int64_t place) { return static_cast<double>(place) / denominator; };
  const auto left = scaled(box.left), top = scaled(box.top);
  const double right = std::min(scaled(box.right()), static_cast<double>(extent.width));
  const double bottom = std::min(scaled(box.bottom()), static_cast<double>(extent.height));
  const auto first_x = static_cast<std::int64_t>(left), first_y = static_cast<std::int64_t>(top);
  const Box inside{first_x, first_y, static_cast<std::int64_t>(std::ceil(right)) - first_x,
                   static_cast<std::int64_t>(std::ceil(bottom)) - first_y};
  return {edit, left, top, right, bottom, inside};
}

Program make_program(const ImageSource& source, std::vector<Edit> edits) {
  Program program;
  Extent extent = source.extent();
  std::size_t done = 0;
  if (source.head && source.head->format == ImageFormat::kJpeg && source.reducing_gap) {
    Box box = whole(extent);
    std::size_t next = 0;
    for (; next < edits.size() && std::holds_alternative<CropEdit>(edits[next]); ++next) {
      const Box& crop = std::get<CropEdit>(edits[next]).box;
      box = {box.left + crop.left, box.top + crop.top, crop.width, crop.height};
    }
    const auto* const resize = next < edits.size() ? std::get_if<ResizeEdit>(&edits[next]) : nullptr;
    if (resize != nullptr && resize->antialias)
      program.denominator = choose_denominator(box, resize->size, *source.reducing_gap);
    if (program.denominator > 1) {
      const int by = program.denominator;
      extent = {(extent.width + by - 1) / by, (extent.height + by - 1) / by};
      program.extents.push_back(extent);
      program.actions.emplace_back(reduced(*resize, box, extent, by));
      extent = resize->size;
      done = next + 1;
    }
  }
  for (; done < edits.size(); ++done) {
    program.extents.push_back(extent);
    if (const auto* resize = std::get_if<ResizeEdit>(&edits[done]))
      program.actions.emplace_back(whole_resampling(*resize, extent));
    else
      std::visit(
          [&](auto& edit) {
            if constexpr (std::is_constructible_v<Action, decltype(edit)>) program.actions.emplace_back(edit);
          },
          edits[done]);
    extent = extent_after(edits[done], extent);
  }
  program.extents.push_back(extent);
  return program;
}

/// Action `i` if it is a resize that reads lines as it needs them; else null.
const Resampling* block_resampling(const Program& program, std::size_t i) {
  if (i == program.actions.size()) return nullptr;
  const auto* const resampling = std::get_if<Resampling>(&program.actions[i]);
  return resampling != nullptr && suits_blocks(resampling->across(), resampling->down()) ? resampling
                                                                                         : nullptr;
}

}  // namespace

Extent extent_after(const Edit& edit, Extent extent) {
  return std::visit(
      Overloaded{
          [](const CropEdit& crop) { return Extent{crop.box.width, crop.box.height}; },
          [](const ResizeEdit& resize) { return resize.size; },
          [&](const TurnEdit& turn) { return turn.quarters % 2 == 0 ? extent : turned(extent); },
          [&](const PadEdit& pad) {
            return Extent{extent.width + pad.left + pad.right, extent.height + pad.top + pad.bottom};
          },
          [&](const auto&) { return extent; },
      },
      edit);
}

Pixels edited(const ImageSource& source, std::vector<Edit> edits) {
  const Program program = make_program(source, std::move(edits));
  std::vector<Box> wanted(program.extents.size());
  wanted.back() = whole(program.extents.back());
  for (std::size_t i = program.actions.size(); i-- > 0;)
    wanted[i] = needed(program.actions[i], program.extents[i], wanted[i + 1]);
  const std::unique_ptr<LineSource> lines =
      source.head ? open_image(source.encoded, *source.head, wanted[0], program.denominator, source.samples)
                  : std::make_unique<LoadedLines>(source.pixels.part(wanted[0]));
  std::size_t next = 0;
  while (next < program.actions.size() && std::holds_alternative<CropEdit>(program.actions[next])) ++next;
  Window window{{}, wanted[next]};
  if (const Resampling* const first = block_resampling(program, next)) {
    ++next;
    window = {resampled(*lines, window.box, first->across(), first->down(), wanted[next]), wanted[next]};
  } else {
    window.pixels = lines->read(0, window.box.height);
  }
  for (; next < program.actions.size(); ++next)
    window = applied(program.actions[next], window, program.extents[next], wanted[next + 1]);
  return window.pixels;
}

std::vector<Edit> mask_edits(std::span<const Edit> edits) {
  std::vector<Edit> result;
  result.reserve(edits.size());
  for (const Edit& edit : edits) {
    if (std::holds_alternative<ColourEdit>(edit)) continue;
    result.push_back(edit);
    if (auto* const resize = std::get_if<ResizeEdit>(&result.back())) {
      resize->interpolation = Interpolation::kNearest;
      resize->antialias = false;
    }
    if (auto* const pad = std::get_if<PadEdit>(&result.back())) pad->fill = 0;
  }
  return result;
}

}  // namespace torch_distinput
