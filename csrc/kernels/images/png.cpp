// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/codecs.h"

#ifdef TDI_HAS_PNG

#include <png.h>

#ifndef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
#error "libpng was built without the choice of chunks, so that text in a PNG could take any amount of memory"
#endif

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace torch_distinput {
namespace {

constexpr std::int64_t kPngChannels = 3;

/// A decoder over encoded bytes. libpng reports errors by a jump: each method that calls it is the target,
/// and no object with a destructor lives in between.
class PngReader {
 public:
  explicit PngReader(std::string_view encoded) : rest_(encoded) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, png_const_charp) {});
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, &info_, nullptr);
      throw ImageError("PNG: there is no memory for a decoder");
    }
    if (setjmp(jump_) != 0) raise();
    png_set_read_fn(png_, this, read);
    // Pixels need neither text nor profiles, which unpack to a thousand times their size: libpng skips all
    // but IHDR, PLTE, tRNS, IDAT and IEND.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  Extent extent() const { return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)}; }

  /// Whether lines must all be read, several times over.
  bool interlaced() const { return png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE; }

  /// Whether samples are grey of 16 bits.
  bool is_deep_grey() const {
    return png_get_bit_depth(png_, info_) == 16 && png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY;
  }

  /// Whether samples are numbers of a mask.
  bool suits_mask() const {
    const int colours = png_get_color_type(png_, info_);
    return (colours == PNG_COLOR_TYPE_GRAY || colours == PNG_COLOR_TYPE_PALETTE) &&
           png_get_bit_depth(png_, info_) <= 8;
  }

  /// Asks for one byte a pixel of a mask, and returns the bytes of a line. REQUIRES: `suits_mask()`.
  std::size_t start_mask() {
    if (setjmp(jump_) != 0) raise();
    png_set_packing(png_);
    if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    return start_reading();
  }

  /// Asks for RGB, or for what `is_deep_grey` says, and returns the bytes of a line.
  std::size_t start_colours() {
    if (setjmp(jump_) != 0) raise();
    const int colours = png_get_color_type(png_, info_);
    if (!is_deep_grey()) {
      png_set_strip_16(png_);
      if (colours == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (colours == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
      if ((colours & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
      png_set_strip_alpha(png_);
    }
    return start_reading();
  }

  void read_line(std::uint8_t* to) {
    if (setjmp(jump_) != 0) raise();
    png_read_row(png_, to, nullptr);
  }

  void read_all(std::uint8_t** lines) {
    if (setjmp(jump_) != 0) raise();
    png_read_image(png_, lines);
  }

 private:
  std::size_t start_reading() {
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return png_get_rowbytes(png_, info_);
  }

  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader.message_, sizeof(reader.message_), "%s", message);
    std::longjmp(reader.jump_, 1);
  }

  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.rest_.size()) png_error(png, "the data is truncated");
    std::memcpy(to, reader.rest_.data(), count);
    reader.rest_.remove_prefix(count);
  }

  [[noreturn]] void raise() {
    png_destroy_read_struct(&png_, &info_, nullptr);
    throw EncodedImageError(std::string("PNG: ") + message_);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char message_[128]{};
};

/// 16-bit grey, high byte first, as RGB: values above 255 become 255, as in Pillow.
void convert_deep_grey(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t value = from[2 * i] != 0 ? 255 : from[2 * i + 1];
    for (std::int64_t channel = 0; channel < kPngChannels; ++channel) to[i * kPngChannels + channel] = value;
  }
}

}  // namespace

bool has_png() { return true; }

Extent png_extent(std::string_view encoded) { return PngReader(encoded).extent(); }

Pixels decode_png(std::string_view encoded, const Box& region, Samples samples) {
  PngReader reader(encoded);
  const Extent extent = reader.extent();
  const bool mask = samples == Samples::kMask;
  if (mask && !reader.suits_mask())
    throw ImageError("PNG: a mask must be grey of at most 8 bits, or have a palette");
  const bool deep_grey = !mask && reader.is_deep_grey();
  const std::int64_t channels = mask ? 1 : kPngChannels;
  const std::size_t line_bytes = mask ? reader.start_mask() : reader.start_colours();
  if (line_bytes != static_cast<std::size_t>(extent.width * (deep_grey ? 2 : channels)))
    throw EncodedImageError("PNG: a line has an unexpected number of bytes");
  const bool all = reader.interlaced();
  const std::int64_t first = all ? 0 : region.top;
  const Pixels pixels = make_pixels({extent.width, all ? extent.height : region.height}, channels);
  std::vector<std::uint8_t> scratch(line_bytes);
  if (all) {
    std::vector<std::uint8_t> wide(line_bytes * static_cast<std::size_t>(extent.height));
    std::vector<std::uint8_t*> lines;
    for (std::int64_t y = 0; y < extent.height; ++y)
      lines.push_back(wide.data() + line_bytes * static_cast<std::size_t>(y));
    reader.read_all(lines.data());
    for (std::int64_t y = 0; y < extent.height; ++y) {
      if (deep_grey)
        convert_deep_grey(lines[static_cast<std::size_t>(y)], pixels.line(y), extent.width);
      else
        std::memcpy(pixels.line(y), lines[static_cast<std::size_t>(y)], line_bytes);
    }
  } else {
    for (std::int64_t y = 0; y < first; ++y) reader.read_line(scratch.data());
    for (std::int64_t y = 0; y < region.height; ++y) {
      reader.read_line(deep_grey ? scratch.data() : pixels.line(y));
      if (deep_grey) convert_deep_grey(scratch.data(), pixels.line(y), extent.width);
    }
  }
  return pixels.part({region.left, region.top - first, region.width, region.height});
}

}  // namespace torch_distinput

#else

namespace torch_distinput {

bool has_png() { return false; }
Extent png_extent(std::string_view) { throw ImageError("this build has no decoder for PNG"); }
Pixels decode_png(std::string_view, const Box&, Samples) {
  throw ImageError("this build has no decoder for PNG");
}

}  // namespace torch_distinput

#endif
