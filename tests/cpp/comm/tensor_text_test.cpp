// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/tensor_text.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/errors.h"
#include "support/mutations.h"

namespace torch_distinput {
namespace {

using mutations_testing::kMutations;
using mutations_testing::mutated;

at::Tensor sent(const at::Tensor& tensor) {
  const auto back = decode_tensors(encode_tensors({tensor}), "text");
  EXPECT_EQ(back.size(), 1U);
  return back.front();
}

TEST(TensorText, CarriesEveryDtypeShapeAndView) {
  for (const auto dtype :
       {at::kByte, at::kLong, at::kHalf, at::kBFloat16, at::kBool, at::kComplexFloat, at::kDouble}) {
    const at::Tensor matrix = at::arange(12, at::kInt).reshape({3, 4}).to(dtype);
    for (const at::Tensor& tensor : {matrix, matrix.t(), matrix[1], matrix[1][2], matrix.narrow(0, 0, 0),
                                     matrix.slice(1, 0, 4, 2), at::full({1, 3}, 1, dtype).expand({5, 3})}) {
      const at::Tensor back = sent(tensor);
      EXPECT_EQ(back.scalar_type(), dtype);
      EXPECT_EQ(back.sizes(), tensor.sizes());
      EXPECT_TRUE(at::equal(back, tensor));
    }
  }
  EXPECT_TRUE(at::equal(sent(at::ones({2}, at::kComplexFloat).conj()), at::ones({2}, at::kComplexFloat)));
  EXPECT_FALSE(sent(at::ones({2}).requires_grad_(true)).requires_grad());
}

TEST(TensorText, CarriesSparseTensors) {
  const at::Tensor dense = at::arange(6, at::kFloat).reshape({2, 3});
  EXPECT_TRUE(at::equal(sent(dense.to_sparse()).to_dense(), dense));
  EXPECT_TRUE(sent(dense.to_sparse()).is_sparse());
}

TEST(TensorText, OtherLayoutsAreRefusedBeforeTheyAreSent) {
  const at::Tensor rows = at::ones({2, 2}).to_sparse_csr();
  EXPECT_FALSE(can_be_encoded(rows));
  EXPECT_NE(
      message_of<c10::TypeError>([&] { encode_tensors({rows}); }).find("must be a dense or sparse tensor"),
      std::string::npos);
}

TEST(TensorText, SizesAreCheckedAgainstTheBytesThatAreThere) {
  const auto refusal = [](const std::string& text) {
    return message_of<DistributedDatasetError>([&] { decode_tensors(text, "the values of rank 1"); });
  };
  EXPECT_NE(refusal("1 0 0 1 1000000000000 3 abc").find("must be 1000000000000 bytes, but is 3 bytes"),
            std::string::npos);
  const std::string huge = "4294967296 ";
  EXPECT_NE(refusal("1 0 6 3 " + huge + huge + huge + "0 ").find("at most 2**62 bytes"), std::string::npos);
  EXPECT_NE(refusal("1 0 6 4 0 " + huge + huge + huge + "0 ").find("at most 2**62 bytes"), std::string::npos);
  EXPECT_NE(refusal("1 0 12 0 1 a").find("a dtype must be one of plain numbers"), std::string::npos);
  EXPECT_NE(refusal("1 0 999 0 1 a").find("a dtype must be"), std::string::npos);
  EXPECT_NE(refusal("1 0 11 0 1 a").find("a bool must be 0 or 1"), std::string::npos);
  EXPECT_NE(refusal("9999999 ").find("the number of tensors must be"), std::string::npos);
  EXPECT_NE(refusal("0 x").find("the text must be at its end"), std::string::npos);
  // A place beyond the dims of a sparse tensor.
  const std::string nine("\x09\0\0\0\0\0\0\0", 8);
  EXPECT_NE(refusal("1 1 1 3 4 2 1 1 8 " + nine + "0 1 1 1 a")
                .find("a sparse tensor must be one with values in its dims"),
            std::string::npos);
}

TEST(TensorText, DamagedTextsAreErrorsOrTensors) {
  std::mt19937_64 random(3);
  const at::Tensor flags = at::arange(5).remainder(2).to(at::kBool);
  const std::string good =
      encode_tensors({at::arange(3), flags, at::ones({2, 2}).to_sparse(), at::ones({2, 0, 3}, at::kHalf)});
  int read = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string bad = mutated(good, random);
    const std::vector<char> exact(bad.begin(), bad.end());
    try {
      for (const at::Tensor& tensor : decode_tensors({exact.data(), exact.size()}, "text")) {
        EXPECT_TRUE(can_be_encoded(tensor));
        if (!tensor.is_sparse()) {
          EXPECT_LE(tensor.nbytes(), exact.size());
        } else if (i % 64 == 0) {  // torch's threads take long to meet
          EXPECT_EQ(tensor.coalesce().sizes(), tensor.sizes());
        }
      }
      ++read;
    } catch (const DistributedDatasetError&) {
      continue;
    }
  }
  EXPECT_GT(read, kMutations / 100);
}

}  // namespace
}  // namespace torch_distinput
