// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/image_folder.h"
#include "torch_distinput/images.h"

namespace torch_distinput {
namespace {

using Sizes = std::vector<std::int64_t>;
using Interval = ColorJitter::Interval;

/// A step as a class: pybind11 takes a variant for one of its alternatives.
struct BoundStep {
  ImageStep step;
};

/// The value under `name` in `choices`; `op` and `parameter` are for the message.
template <class Value, std::size_t kCount>
Value chosen(const std::pair<const char*, Value> (&choices)[kCount], const std::string& name, const char* op,
             const char* parameter) {
  std::string names;
  for (const auto& [choice, value] : choices) {
    if (name == choice) return value;
    names += (names.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  }
  C10_THROW_ERROR(ValueError, std::string(op) + ": `" + parameter + "` must be one of " + names +
                                  ", but is \"" + name + "\".");
}

Interpolation interpolation_of(const std::string& name, const char* op) {
  constexpr std::pair<const char*, Interpolation> kChoices[] = {{"nearest", Interpolation::kNearest},
                                                                {"bilinear", Interpolation::kBilinear},
                                                                {"bicubic", Interpolation::kBicubic}};
  return chosen(kChoices, name, op, "interpolation");
}

PaddingMode padding_mode_of(const std::string& name, const char* op) {
  constexpr std::pair<const char*, PaddingMode> kChoices[] = {{"constant", PaddingMode::kConstant},
                                                              {"edge", PaddingMode::kEdge},
                                                              {"reflect", PaddingMode::kReflect},
                                                              {"symmetric", PaddingMode::kSymmetric}};
  return chosen(kChoices, name, op, "padding_mode");
}

BoxFormat box_format_of(const std::string& name) {
  constexpr std::pair<const char*, BoxFormat> kChoices[] = {
      {"XYXY", BoxFormat::kXyxy}, {"XYWH", BoxFormat::kXywh}, {"CXCYWH", BoxFormat::kCxcywh}};
  return chosen(kChoices, name, "with_image_targets", "box_format");
}

ImageLayout layout_of(const std::string& name) {
  constexpr std::pair<const char*, ImageLayout> kChoices[] = {{"NCHW", ImageLayout::kNchw},
                                                              {"NHWC", ImageLayout::kNhwc}};
  return chosen(kChoices, name, "decode_image", "layout");
}

/// Reads the names of files: text, or bytes where they are not UTF-8.
Dataset files_of(const py::list& paths, Sizes numbers) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const py::handle path : paths) names.push_back(path.cast<std::string>());
  return without_gil([&] { return image_files(std::move(names), std::move(numbers)); });
}

py::tuple folder(const std::string& root) {
  const ImageFolder found = without_gil([&] { return ImageFolder(root); });
  py::list classes;
  for (const std::string& name : found.classes()) classes.append(py::bytes(name));
  return py::make_tuple(static_cast<const Dataset&>(found), classes);
}

}  // namespace

void bind_images(py::module_& module) {
  module.def("image_folder", folder, py::arg("root"),
             "Images in a folder for each class, and the names of the classes as bytes.");
  module.def("image_files", files_of, py::arg("paths"), py::arg("numbers"),
             "Tuples of the bytes of a file and its number.");
  py::class_<BoundStep>(module, "ImageStep", "An op on an image, with its arguments.")
      .def_static(
          "decode_image",
          [](const std::string& layout, std::int64_t max_pixels, std::optional<double> reducing_gap) {
            return BoundStep{DecodeImage{layout_of(layout), max_pixels, reducing_gap}};
          },
          py::arg("layout"), py::arg("max_pixels"), py::arg("reducing_gap"),
          "JPEG, PNG or WebP bytes as RGB.")
      .def_static(
          "resize",
          [](Sizes size, const std::string& interpolation, bool antialias) {
            return BoundStep{Resize{std::move(size), interpolation_of(interpolation, "resize"), antialias}};
          },
          py::arg("size"), py::arg("interpolation"), py::arg("antialias"),
          "To height and width, or the shorter edge to one size.")
      .def_static(
          "center_crop", [](Sizes size) { return BoundStep{CenterCrop{std::move(size)}}; }, py::arg("size"),
          "The middle of an image.")
      .def_static(
          "pad",
          [](Sizes padding, std::int64_t fill, const std::string& mode) {
            return BoundStep{Pad{std::move(padding), fill, padding_mode_of(mode, "pad")}};
          },
          py::arg("padding"), py::arg("fill"), py::arg("padding_mode"), "Pixels around an image.")
      .def_static(
          "random_crop",
          [](Sizes size, Sizes padding, bool pad_if_needed, std::int64_t fill, const std::string& mode) {
            return BoundStep{RandomCrop{std::move(size), std::move(padding), pad_if_needed, fill,
                                        padding_mode_of(mode, "random_crop")}};
          },
          py::arg("size"), py::arg("padding"), py::arg("pad_if_needed"), py::arg("fill"),
          py::arg("padding_mode"), "A part of one size at a random place.")
      .def_static(
          "random_resized_crop",
          [](Sizes size, std::array<double, 2> scale, std::array<double, 2> ratio,
             const std::string& interpolation, bool antialias) {
            return BoundStep{RandomResizedCrop{std::move(size), scale, ratio,
                                               interpolation_of(interpolation, "random_resized_crop"),
                                               antialias}};
          },
          py::arg("size"), py::arg("scale"), py::arg("ratio"), py::arg("interpolation"), py::arg("antialias"),
          "A random part, resized.")
      .def_static(
          "horizontal_flip", [](double p) { return BoundStep{HorizontalFlip{p}}; }, py::arg("p"),
          "Mirrors left to right with probability `p`.")
      .def_static(
          "vertical_flip", [](double p) { return BoundStep{VerticalFlip{p}}; }, py::arg("p"),
          "Mirrors top to bottom with probability `p`.")
      .def_static(
          "rotate90", [](std::optional<std::int64_t> k) { return BoundStep{Rotate90{k}}; }, py::arg("k"),
          "`k` quarter turns counterclockwise; None: a random number.")
      .def_static(
          "color_jitter",
          [](Interval brightness, Interval contrast, Interval saturation, Interval hue) {
            return BoundStep{ColorJitter{brightness, contrast, saturation, hue}};
          },
          py::arg("brightness"), py::arg("contrast"), py::arg("saturation"), py::arg("hue"),
          "Random changes of colours by factors from these intervals.")
      .def_static(
          "rand_augment",
          [](std::int64_t num_ops, std::int64_t magnitude, std::int64_t num_magnitude_bins) {
            return BoundStep{RandAugment{num_ops, magnitude, num_magnitude_bins}};
          },
          py::arg("num_ops"), py::arg("magnitude"), py::arg("num_magnitude_bins"),
          "Random changes of RandAugment's set.")
      .def_static(
          "with_image_targets",
          [](std::vector<ImageKey> masks, std::vector<ImageKey> boxes, const std::string& box_format) {
            return BoundStep{ImageTargets{std::move(masks), std::move(boxes), box_format_of(box_format)}};
          },
          py::arg("masks"), py::arg("boxes"), py::arg("box_format"),
          "Masks and boxes that later ops change together with the image.");
  module.def(
      "apply_image_step",
      [](const Dataset& dataset, const BoundStep& bound, const ImageKey& key) {
        return without_gil([&] { return Dataset(apply_image_step(dataset.node(), bound.step, key)); });
      },
      py::arg("dataset"), py::arg("step"), py::arg("key"),
      "The dataset with an op on the image of each element.");
}

}  // namespace torch_distinput
