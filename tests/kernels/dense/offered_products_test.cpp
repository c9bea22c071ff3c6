// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_fixture.hpp"

#if MSSTREAM_CUDA
#include "common/fp8.hpp"
#include "dense/product.hpp"

#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include <cstdint>

// Kernels of our own take over where cuBLASLt offers no product, and give right results. These
// tests fail if that happens where it should not, for example because an argument is wrong.
namespace msstream::ops::kernels::testing {
namespace {

constexpr std::int64_t kSize = 256;
constexpr std::size_t kBytes = kSize * kSize * sizeof(float);

class OfferedProductsTest : public ::testing::TestWithParam<MatmulPrecision> {
 protected:
  void SetUp() override {
    if (auto const why = Machine<CudaStream>::why_unavailable(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }
  /// Returns ten times the compute capability.
  static int capability() {
    int major = 0;
    int minor = 0;
    EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
    EXPECT_EQ(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), cudaSuccess);
    return 10 * major + minor;
  }
  static MatrixProduct square(DType operands, DType result) {
    return {.a = nullptr,
            .b = nullptr,
            .d = nullptr,
            .m = kSize,
            .n = kSize,
            .k = kSize,
            .operands = operands,
            .result = result};
  }
  /// Enqueues a product of zeros with the precision of the test, and returns whether it is offered.
  static bool offers(MatrixProduct product) {
    Machine<CudaStream> machine;
    auto const a = machine.allocate(kBytes);
    auto const b = machine.allocate(kBytes);
    auto const d = machine.allocate(kBytes);
    auto const bias = machine.allocate(kBytes);
    auto const aux = machine.allocate(kBytes);
    for (auto const& each : {a, b, bias}) {
      machine.fill(each.get(), 0, kBytes);
    }
    product.a = a.get();
    product.b = b.get();
    product.d = d.get();
    product.bias = product.bias != nullptr ? bias.get() : nullptr;
    product.aux = product.aux != nullptr ? aux.get() : nullptr;
    if (product.fp8) {
      product.fp8->scale_a = product.fp8->scale_b = static_cast<float const*>(bias.get());
    }
    auto const stream = machine.stream();
    stream.libraries->precision = GetParam();
    bool const is_offered = try_product(stream, product);
    machine.synchronise();
    return is_offered;
  }
};
INSTANTIATE_TEST_SUITE_P(Cuda,
                         OfferedProductsTest,
                         ::testing::Values(MatmulPrecision::float32, MatmulPrecision::tf32),
                         [](auto const& about) {
                           return about.param == MatmulPrecision::tf32 ? "tf32" : "float32";
                         });

TEST_P(OfferedProductsTest, of_8_bit_floats_from_capability_8_9_on) {
  if (capability() < 89) {
    GTEST_SKIP() << "the GPU has no products of 8-bit floats";
  }
  auto product = square(DType::float32, DType::bfloat16);
  product.transpose_a = CUBLAS_OP_T;
  for (auto const format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
    product.fp8 =
        Fp8Operands{.a = Fp8Format::e4m3, .b = format, .scale_a = nullptr, .scale_b = nullptr};
    EXPECT_TRUE(offers(product)) << "second format: " << static_cast<int>(format);
  }
}

TEST_P(OfferedProductsTest, of_halves_with_gelu) {
  static std::byte any{};
  for (auto const dtype : {DType::float16, DType::bfloat16}) {
    auto product = square(dtype, dtype);
    product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    product.bias = &any;
    product.aux = &any;
    EXPECT_TRUE(offers(product)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
#endif
