// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/interpreter/gil.h"
#include "bindings/iterator_handle.h"
#include "bindings/leaves/leaf.h"
#include "bindings/module.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/preprocessing.h"

namespace torch_distinput {
namespace {

namespace pre = preprocessing;
using Salt = std::optional<std::array<std::uint64_t, 2>>;
using MutableLayer = std::shared_ptr<pre::Layer>;
using MutableVocabulary = std::shared_ptr<pre::Vocabulary>;

// pybind11 knows no holders of const objects; neither class has a method that changes it.
MutableLayer bound(const pre::LayerPtr& layer) { return std::const_pointer_cast<pre::Layer>(layer); }
MutableVocabulary bound(const pre::VocabularyPtr& vocabulary) {
  return std::const_pointer_cast<pre::Vocabulary>(vocabulary);
}

pre::OutputMode output_mode(const std::string& name) {
  if (name == "one_hot") return pre::OutputMode::kOneHot;
  if (name == "multi_hot") return pre::OutputMode::kMultiHot;
  if (name == "count") return pre::OutputMode::kCount;
  if (name == "tf_idf") return pre::OutputMode::kTfIdf;
  return pre::OutputMode::kInt;
}

pre::OutputOptions output_options(const std::string& mode, bool sparse, c10::ScalarType dtype) {
  return {output_mode(mode), sparse, dtype};
}

pre::Standardize standardize(const std::string& name) {
  if (name == "lower") return pre::Standardize::kLower;
  if (name == "strip_punctuation") return pre::Standardize::kStripPunctuation;
  if (name == "lower_and_strip_punctuation") return pre::Standardize::kLowerAndStripPunctuation;
  return pre::Standardize::kNone;
}

pre::Split split(const std::string& name) {
  if (name == "whitespace") return pre::Split::kWhitespace;
  if (name == "character") return pre::Split::kCharacter;
  return pre::Split::kNone;
}

pre::LookupOptions lookup_options(std::int64_t num_oov_indices, const py::object& mask_token,
                                  const py::object& oov_token, bool hash_integers, Salt salt,
                                  std::optional<std::int64_t> depth, std::optional<at::Tensor> idf_weights,
                                  const std::string& mode, bool sparse, c10::ScalarType dtype) {
  pre::LookupOptions options;
  options.num_oov_indices = num_oov_indices;
  if (!mask_token.is_none()) options.mask_token = mask_token.cast<pre::Token>();
  if (!oov_token.is_none()) options.oov_token = oov_token.cast<pre::Token>();
  options.hash_integers = hash_integers;
  options.salt = salt;
  options.depth = depth;
  if (idf_weights) options.idf_weights = *std::move(idf_weights);
  options.output = output_options(mode, sparse, dtype);
  return options;
}

MutableVocabulary vocabulary_of(const py::object& tokens) {
  const Leaf leaf = leaf_from_python(tokens.ptr(), Objects::kRefuse, nullptr);
  return bound(without_gil([&] { return pre::Vocabulary::of(leaf); }));
}

/// The tensors that hold tokens: integers, or bytes and offsets.
std::vector<at::Tensor> tensors_of(const Leaf& leaf) {
  if (const auto* const strings = std::get_if<Bytes>(&leaf)) return {strings->values, strings->offsets};
  return {std::get<at::Tensor>(leaf)};
}

Leaf leaf_from_tensors(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1 || tensors.size() == 2,
                    "vocabulary: 1 tensor of integers, or bytes and offsets are needed, but got ",
                    tensors.size(), " tensors.");
  if (tensors.size() == 1) return tensors[0];
  const at::Tensor bytes = tensors[0].cpu().contiguous();
  const at::Tensor offsets = tensors[1].cpu().contiguous();
  const bool fits = bytes.scalar_type() == at::kByte && bytes.dim() == 1 &&
                    offsets.scalar_type() == at::kLong && offsets.dim() == 1 && offsets.numel() > 0;
  TORCH_CHECK_VALUE(fits, "vocabulary: the saved tokens must be uint8 bytes and int64 offsets of one dim.");
  const auto* const bounds = offsets.const_data_ptr<std::int64_t>();
  bool sorted = bounds[0] == 0 && bounds[offsets.numel() - 1] == bytes.numel();
  for (std::int64_t i = 0; i + 1 < offsets.numel(); ++i) sorted = sorted && bounds[i] <= bounds[i + 1];
  TORCH_CHECK_VALUE(sorted, "vocabulary: the saved offsets do not divide the saved bytes.");
  return Bytes{bytes, offsets, {offsets.numel() - 1}, true};
}

/// A counter with the iterators it reads; one Python thread at a time.
class TokenCounts {
 public:
  using TextNames = std::tuple<std::string, std::string, std::vector<std::int64_t>>;

  TokenCounts(bool integers, const std::optional<TextNames>& text) {
    if (text) {
      counter_ = pre::TokenCounter::of_texts(
          {standardize(std::get<0>(*text)), split(std::get<1>(*text)), std::get<2>(*text), {}, false});
    } else {
      counter_ = integers ? pre::TokenCounter::of_integers() : pre::TokenCounter::of_strings();
    }
  }

  void add(const py::object& batch, const std::optional<at::Tensor>& row_offsets) {
    const Leaf leaf = leaf_from_python(batch.ptr(), Objects::kRefuse, nullptr);
    without_gil([&] { counter_->add(leaf, row_offsets.value_or(at::Tensor())); });
  }

  std::int64_t consume(IteratorHandle<DatasetIterator>& iterator, std::int64_t count) {
    return iterator.call([&](DatasetIterator& elements) {
      std::int64_t read = 0;
      for (; read < count; ++read) {
        const std::optional<Element> element = elements.next();
        if (!element) break;
        TORCH_CHECK_TYPE(element->structure()->kind() == Structure::Kind::kLeaf,
                         "adapt: the elements must be one leaf, but are ", element->structure()->str(),
                         "; map the dataset to the feature that the layer reads.");
        counter_->add(element->leaves().front(), {});
      }
      return read;
    });
  }

  py::tuple state() const {
    const pre::TokenCounts counts = counter_->counts();
    return py::make_tuple(tensors_of(counts.tokens), counts.counts, counts.documents, counts.num_documents);
  }

  void merge(const std::vector<at::Tensor>& tokens, const at::Tensor& counts, const at::Tensor& documents,
             std::int64_t num_documents) {
    const Leaf leaf = leaf_from_tensors(tokens);
    const auto* const strings = std::get_if<Bytes>(&leaf);
    const std::int64_t size = strings != nullptr ? strings->count() : std::get<at::Tensor>(leaf).numel();
    TORCH_CHECK_VALUE(counts.scalar_type() == at::kLong && counts.numel() == size &&
                          documents.scalar_type() == at::kLong && documents.numel() == size,
                      "adapt: the saved counts must be int64, one for each of ", size, " tokens.");
    without_gil([&] {
      counter_->merge({leaf, counts.cpu().contiguous(), documents.cpu().contiguous(), num_documents});
    });
  }

  py::tuple top(std::optional<std::int64_t> limit, const std::vector<pre::Token>& excluded) const {
    MutableVocabulary vocabulary;
    at::Tensor documents;
    without_gil([&] {
      const pre::TokenCounts counts = counter_->top(limit, excluded);
      vocabulary = bound(pre::Vocabulary::of(counts.tokens));
      documents = counts.documents;
    });
    return py::make_tuple(vocabulary, documents);
  }

  std::int64_t size() const { return counter_->size(); }
  std::int64_t num_documents() const { return counter_->num_documents(); }

 private:
  std::unique_ptr<pre::TokenCounter> counter_;
};

std::vector<std::string> standardize_texts(const std::vector<std::string>& texts, const std::string& name) {
  std::vector<std::string> results;
  for (const std::string& text : texts) results.push_back(pre::standardized(text, standardize(name)));
  return results;
}

py::object call(const pre::Layer& layer, const py::tuple& inputs,
                const std::optional<at::Tensor>& row_offsets) {
  std::vector<Leaf> leaves;
  for (const auto input : inputs) leaves.push_back(leaf_from_python(input.ptr(), Objects::kRefuse, nullptr));
  Leaf result = without_gil([&] { return layer.call(leaves, row_offsets.value_or(at::Tensor())); });
  return leaf_to_python(result);
}

MutableLayer lookup(const MutableVocabulary& vocabulary, bool invert, const pre::LookupOptions& options) {
  return bound(invert ? pre::inverse_lookup(vocabulary, options) : pre::lookup(vocabulary, options));
}

MutableLayer text_vectorization(const MutableVocabulary& vocabulary, const std::string& standardize_name,
                                const std::string& split_name, std::vector<std::int64_t> ngrams,
                                std::optional<std::int64_t> output_sequence_length, bool ragged,
                                const pre::LookupOptions& options) {
  pre::TextOptions text{standardize(standardize_name), split(split_name), std::move(ngrams),
                        output_sequence_length, ragged};
  return bound(pre::text_vectorization(vocabulary, std::move(text), options));
}

pre::HashingOptions hashing_options(std::int64_t num_bins, const py::object& mask_value, Salt salt,
                                    pre::OutputOptions output) {
  pre::HashingOptions options{num_bins, {}, salt, output};
  if (!mask_value.is_none()) options.mask_value = mask_value.cast<std::variant<double, std::string>>();
  return options;
}

void bind_vocabulary(py::module_& module) {
  py::class_<pre::Vocabulary, MutableVocabulary>(module, "Vocabulary", "Distinct tokens in order.")
      .def_static("of", vocabulary_of, py::arg("tokens"), "A vocabulary of a list or array of tokens.")
      .def_static(
          "from_file",
          [](const std::string& path, bool integers) {
            return bound(without_gil([&] { return pre::Vocabulary::from_file(path, integers); }));
          },
          py::arg("path"), py::arg("integers"), "One token a line.")
      .def_static(
          "from_tensors",
          [](const std::vector<at::Tensor>& tensors) {
            return bound(pre::Vocabulary::of(leaf_from_tensors(tensors)));
          },
          py::arg("tensors"), "The vocabulary that `tensors` returned.")
      .def(
          "tensors", [](const pre::Vocabulary& self) { return tensors_of(self.tokens()); },
          "The tokens as tensors: integers, or bytes and offsets.")
      .def(
          "tokens",
          [](const pre::Vocabulary& self) {
            Leaf leaf = self.tokens();
            return leaf_to_python(leaf);
          },
          "The tokens: a list of str, or an int64 tensor.")
      .def("__len__", &pre::Vocabulary::size);
}

void bind_counter(py::module_& module) {
  py::class_<TokenCounts>(module, "TokenCounter", "Counts tokens.")
      .def(py::init<bool, const std::optional<TokenCounts::TextNames>&>(), py::arg("integers"),
           py::arg("text"),
           "Counts strings or integers, or the tokens of texts that are standardized, split and joined.")
      .def("add", &TokenCounts::add, py::arg("batch"), py::arg("row_offsets") = py::none(), "Counts a batch.")
      .def("consume", &TokenCounts::consume, py::arg("iterator"), py::arg("count"),
           "Counts up to `count` elements of an iterator; returns how many there were.")
      .def("state", &TokenCounts::state, "Tokens, counts, counts of documents, and the number of documents.")
      .def("merge", &TokenCounts::merge, py::arg("tokens"), py::arg("counts"), py::arg("documents"),
           py::arg("num_documents"), "Adds what `state` returned.")
      .def("top", &TokenCounts::top, py::arg("limit"), py::arg("excluded"),
           "The vocabulary of the most frequent tokens, and their counts of documents.")
      .def("num_documents", &TokenCounts::num_documents, "The number of documents.")
      .def("__len__", &TokenCounts::size);
  module.def("standardize_texts", standardize_texts, py::arg("texts"), py::arg("standardize"),
             "Texts in lower case, without punctuation, or both.");
}

}  // namespace

void bind_preprocessing(py::module_& module) {
  bind_vocabulary(module);
  bind_counter(module);
  py::class_<pre::LookupOptions>(module, "LookupOptions", "How tokens become indices.")
      .def(py::init(&lookup_options), py::arg("num_oov_indices"), py::arg("mask_token"), py::arg("oov_token"),
           py::arg("hash_integers"), py::arg("salt"), py::arg("depth"), py::arg("idf_weights"),
           py::arg("output_mode"), py::arg("sparse"), py::arg("dtype"));
  py::class_<pre::OutputOptions>(module, "OutputOptions", "How indices are written.")
      .def(py::init(&output_options), py::arg("output_mode"), py::arg("sparse"), py::arg("dtype"));
  py::class_<pre::Layer, MutableLayer>(module, "Layer", "A preprocessing layer; `Dataset.map` takes it.")
      .def("__call__", call, py::arg("inputs"), py::arg("row_offsets") = py::none(),
           "The result for a tuple of inputs.")
      .def_property_readonly("name", &pre::Layer::name, "The class and the options.");
  module.def("lookup_layer", lookup, py::arg("vocabulary"), py::arg("invert"), py::arg("options"),
             "Indices of tokens, or the inverse.");
  module.def("text_layer", text_vectorization, py::arg("vocabulary"), py::arg("standardize"),
             py::arg("split"), py::arg("ngrams"), py::arg("output_sequence_length"), py::arg("ragged"),
             py::arg("options"), "Indices of the tokens of texts.");
  module.def(
      "hashing_layer",
      [](std::int64_t num_bins, const py::object& mask_value, Salt salt, const pre::OutputOptions& output) {
        return bound(pre::hashing(hashing_options(num_bins, mask_value, salt, output)));
      },
      py::arg("num_bins"), py::arg("mask_value"), py::arg("salt"), py::arg("output"), "Bins by hash.");
  module.def(
      "crossing_layer",
      [](std::int64_t num_bins, const pre::OutputOptions& output) {
        return bound(pre::hashed_crossing(hashing_options(num_bins, py::none(), {}, output)));
      },
      py::arg("num_bins"), py::arg("output"), "Bins of combinations by hash.");
  module.def(
      "encoding_layer",
      [](std::int64_t num_tokens, const pre::OutputOptions& output) {
        return bound(pre::category_encoding(num_tokens, output));
      },
      py::arg("num_tokens"), py::arg("output"), "Vectors for indices.");
  module.def(
      "discretization_layer",
      [](std::vector<float> boundaries, const pre::OutputOptions& output) {
        return bound(pre::discretization(std::move(boundaries), output));
      },
      py::arg("boundaries"), py::arg("output"), "The bins of numbers.");
  module.def(
      "normalization_layer",
      [](at::Tensor mean, at::Tensor variance, bool invert) {
        return bound(pre::normalization(std::move(mean), std::move(variance), invert));
      },
      py::arg("mean"), py::arg("variance"), py::arg("invert"), "Shifted and scaled numbers.");
}

}  // namespace torch_distinput
