// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/images/codecs.h"

#ifdef TDI_HAS_JPEG

#include <csetjmp>
#include <cstddef>
#include <cstdio>
// Needs what <cstdio> and <cstddef> declare.
#include <algorithm>
#include <cstring>
#include <string>

#include <jerror.h>
#include <jpeglib.h>

namespace torch_distinput {
namespace {

constexpr std::int64_t kRgb = 3;
constexpr std::int64_t kCmyk = 4;
/// The sides of the blocks that a JPEG is made of.
constexpr std::int64_t kBlockSide = 8;
/// Encoders write about ten scans. A scan takes a few bytes of the file and a pass over the whole image.
/// libtiff has the same limit; the 500 of libjpeg-turbo's tests would take 6 s for 3000 x 3000 pixels in 65
/// kB.
constexpr int kMaxScans = 100;

/// A decompressor over encoded bytes. libjpeg reports errors by a jump: each method that calls it is the
/// target, and no object with a destructor lives in between.
class JpegReader {
 public:
  explicit JpegReader(std::string_view encoded) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.emit_message = warn;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(encoded.data());
    source_.bytes_in_buffer = encoded.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = end_of_data;
    source_.skip_input_data = skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = [](j_decompress_ptr) {};
    info_.client_data = this;
    progress_.progress_monitor = check_scans;
    if (setjmp(jump_) != 0) raise();
    jpeg_create_decompress(&info_);
    info_.src = &source_;
    info_.progress = &progress_;
    jpeg_read_header(&info_, TRUE);
    head_read_ = true;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Extent extent() const { return {info_.image_width, info_.image_height}; }

  /// The components that lines have: those of RGB, or of CMYK, which libjpeg does not convert.
  std::int64_t components() const { return is_cmyk() ? kCmyk : kRgb; }

  /// Begins at the left edge of `region`, or where libjpeg can begin before it, and returns the columns that
  /// lines will have. Upsampled colours at the edges of what is decoded lack their neighbours, so that one
  /// more block is decoded on both sides.
  Box start(const Box& region, int denominator) {
    if (setjmp(jump_) != 0) raise();
    info_.scale_num = 1;
    info_.scale_denom = static_cast<unsigned>(denominator);
    info_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_EXT_RGB;
    jpeg_start_decompress(&info_);
    const std::int64_t width = info_.output_width;
    const std::int64_t block = info_.max_h_samp_factor * kBlockSide;
    const std::int64_t left = std::max<std::int64_t>(0, region.left - block);
    const std::int64_t right = std::min(width, region.right() + block);
    if (denominator != 1 || (left == 0 && right == width)) return {0, 0, width, 1};
    auto from = static_cast<JDIMENSION>(left);
    auto count = static_cast<JDIMENSION>(right - left);
    jpeg_crop_scanline(&info_, &from, &count);
    return {from, 0, count, 1};
  }

  /// Skips `count` lines.
  void skip_lines(std::int64_t count) {
    if (setjmp(jump_) != 0) raise();
    jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(count));
  }

  /// Reads the next `count` lines to `to`, which begin every `stride` bytes.
  void read_lines(std::uint8_t* to, std::int64_t stride, std::int64_t count) {
    constexpr std::int64_t kMaxAtOnce = 16;
    if (setjmp(jump_) != 0) raise();
    for (std::int64_t done = 0; done < count;) {
      JSAMPROW rows[kMaxAtOnce];
      const std::int64_t most = std::min(count - done, kMaxAtOnce);
      for (std::int64_t i = 0; i < most; ++i) rows[i] = to + (done + i) * stride;
      done += jpeg_read_scanlines(&info_, rows, static_cast<JDIMENSION>(most));
    }
  }

 private:
  bool is_cmyk() const { return info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK; }

  static JpegReader& self(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

  [[noreturn]] static void fail(j_common_ptr info) {
    JpegReader& reader = self(info);
    (*info->err->format_message)(info, reader.message_);
    std::longjmp(reader.jump_, 1);
  }

  /// Damage inside the data is ignored, as other decoders do; data that ends too early is an error.
  static void warn(j_common_ptr info, int level) {
    if (level < 0 && info->err->msg_code == JWRN_HIT_MARKER && self(info).ended_) truncated(info);
  }

  [[noreturn]] static void truncated(j_common_ptr info) {
    JpegReader& reader = self(info);
    std::snprintf(reader.message_, sizeof(reader.message_), "%s", "the data is truncated");
    std::longjmp(reader.jump_, 1);
  }

  /// Ends an image of endless scans. libjpeg calls this for each line of blocks.
  static void check_scans(j_common_ptr info) {
    const int scans = reinterpret_cast<j_decompress_ptr>(info)->input_scan_number;
    if (scans <= kMaxScans) return;
    JpegReader& reader = self(info);
    std::snprintf(reader.message_, sizeof(reader.message_),
                  "it has more than %d scans (it could be a decompression bomb)", kMaxScans);
    std::longjmp(reader.jump_, 1);
  }

  /// Pretends that the image ends here: only if more data is asked for afterwards was some missing. With
  /// several scans whole ones may be missing, so the end is an error at once.
  static boolean end_of_data(j_decompress_ptr info) {
    static const JOCTET kEnd[] = {0xff, JPEG_EOI};
    JpegReader& reader = self(reinterpret_cast<j_common_ptr>(info));
    if (!reader.head_read_ || reader.ended_ || jpeg_has_multiple_scans(info) != 0)
      truncated(reinterpret_cast<j_common_ptr>(info));
    reader.ended_ = true;
    info->src->next_input_byte = kEnd;
    info->src->bytes_in_buffer = sizeof(kEnd);
    return TRUE;
  }

  static void skip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if (static_cast<std::size_t>(count) > info->src->bytes_in_buffer)
      truncated(reinterpret_cast<j_common_ptr>(info));
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= static_cast<std::size_t>(count);
  }

  [[noreturn]] void raise() {
    jpeg_destroy_decompress(&info_);
    throw EncodedImageError(std::string("JPEG: ") + message_);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  char message_[JMSG_LENGTH_MAX]{};
  bool head_read_ = false;
  bool ended_ = false;
};

/// Memory for unaligned lines: libjpeg writes aligned ones past the caches, although they are read next.
Pixels make_lines(Extent extent, std::int64_t components) {
  constexpr std::int64_t kPixelsBefore = 2;
  const Pixels pixels = make_pixels({extent.width + kPixelsBefore, extent.height}, components);
  return pixels.part({kPixelsBefore, 0, extent.width, extent.height});
}

/// a * b / 255, rounded.
int scaled(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Inks as Adobe's programs store them, that is inverted, become colours.
void convert_cmyk(const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i, from += kCmyk, to += kRgb) {
    const int light = from[3];
    for (int channel = 0; channel < kRgb; ++channel)
      to[channel] = static_cast<std::uint8_t>(std::max(0, light - scaled(255 - from[channel], light)));
  }
}

Pixels colours_of(const Pixels& inks) {
  const Pixels colours = make_pixels(inks.extent(), kRgb);
  for (std::int64_t y = 0; y < inks.height; ++y) convert_cmyk(inks.line(y), colours.line(y), inks.width);
  return colours;
}

/// The lines of a region. Those that are asked for again are kept at the top of a buffer.
class JpegLines final : public LineSource {
 public:
  JpegLines(std::string_view encoded, const Box& region, int denominator)
      : reader_(encoded), region_(region), columns_(reader_.start(region, denominator)) {
    if (region.top > 0) reader_.skip_lines(region.top);
  }

  Pixels read(std::int64_t first, std::int64_t count) override {
    hold(first, first + count);
    const Pixels lines = buffer_.part({region_.left - columns_.left, 0, region_.width, count});
    return reader_.components() == kCmyk ? colours_of(lines) : lines;
  }

 private:
  /// Fills the buffer with lines [first, end), and those after them that were read before.
  void hold(std::int64_t first, std::int64_t end) {
    const std::int64_t kept = std::max<std::int64_t>(0, end_ - first);
    const Pixels before = buffer_;
    if (std::max(kept, end - first) > buffer_.height)
      buffer_ = make_lines({columns_.width, end - first}, reader_.components());
    if (kept > 0)
      std::memmove(buffer_.data, before.line(first - begin_),
                   static_cast<std::size_t>(kept * buffer_.stride));
    while (end_ < first) read_lines(0, std::min(first - end_, buffer_.height));  // skipped
    if (end_ < end) read_lines(kept, end - end_);
    begin_ = first;
  }

  void read_lines(std::int64_t place, std::int64_t count) {
    reader_.read_lines(buffer_.line(place), buffer_.stride, count);
    end_ += count;
  }

  JpegReader reader_;
  Box region_;
  Box columns_;  ///< those that the reader gives
  Pixels buffer_;
  std::int64_t begin_ = 0;  ///< the line at the top of the buffer
  std::int64_t end_ = 0;    ///< the next line to read
};

}  // namespace

bool has_jpeg() { return true; }

Extent jpeg_extent(std::string_view encoded) { return JpegReader(encoded).extent(); }

std::unique_ptr<LineSource> open_jpeg(std::string_view encoded, const Box& region, int denominator) {
  return std::make_unique<JpegLines>(encoded, region, denominator);
}

}  // namespace torch_distinput

#else

namespace torch_distinput {

bool has_jpeg() { return false; }
Extent jpeg_extent(std::string_view) { throw ImageError("this build has no decoder for JPEG"); }
std::unique_ptr<LineSource> open_jpeg(std::string_view, const Box&, int) {
  throw ImageError("this build has no decoder for JPEG");
}

}  // namespace torch_distinput

#endif
