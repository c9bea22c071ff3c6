// SPDX-License-Identifier: Apache-2.0
#include "fake_cublaslt.hpp"
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/matrix.hpp>

#include <cstddef>
#include <cstdint>

/// Tests of the workspace that products of cuBLASLt are given.
namespace fake_cuda {
namespace {

class ProductWorkspace : public FakeCudaTest {
 protected:
  void TearDown() override {
    fake_cublaslt::counts_tiles = false;
    fake_cublaslt::is_slow_without_counter = false;
    FakeCudaTest::TearDown();
  }
  /// Returns the workspace of a product. The choice for a shape is kept, so that each test needs
  /// shapes of its own.
  static std::size_t of_product(std::int64_t rows) {
    Device const device;
    Floats const left(device, {rows, 24});
    Floats const right(device, {24, 40});
    auto const product = ms::ops::matmul(left, right);
    device.default_group().synchronize();
    return fake_cublaslt::workspace_of_product;
  }
};

TEST_F(ProductWorkspace, is_that_of_the_device) {
  EXPECT_GT(of_product(1601), 0U);
}

TEST_F(ProductWorkspace, is_none_if_an_algorithm_wants_only_a_counter) {
  fake_cublaslt::counts_tiles = true;
  EXPECT_EQ(of_product(1602), 0U);
}

TEST_F(ProductWorkspace, stays_if_the_algorithm_without_it_has_more_waves) {
  fake_cublaslt::counts_tiles = true;
  fake_cublaslt::is_slow_without_counter = true;
  EXPECT_GT(of_product(1603), 0U);
}

}  // namespace
}  // namespace fake_cuda
