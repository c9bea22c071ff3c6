// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/reduce.hpp>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class R>
class TopKTest : public OpsTest<R> {};
TYPED_TEST_SUITE(TopKTest, Runtimes, RuntimeNames);

TYPED_TEST(TopKTest, finds_the_greatest_and_leads_gradients_back) {
  auto const found = ops::top_k(this->put(Floats{1, 5, 3, 5, -1, -2, -3, -4}, {2, 4}), 2);
  EXPECT_EQ(found.values.shape(), (Shape{2, 2}));
  EXPECT_THAT(to_host(found.values), ElementsAre(5, 5, -1, -2));
  EXPECT_THAT(to_host(found.indices), ElementsAre(1, 3, 0, 1));
  auto const gradient =
      ops::top_k_gradient(this->put(Floats{1, 2, 3, 4}, {2, 2}), found.indices, 4);
  EXPECT_EQ(gradient.shape(), (Shape{2, 4}));
  EXPECT_THAT(to_host(gradient), ElementsAre(0, 1, 0, 2, 3, 4, 0, 0));
}

TYPED_TEST(TopKTest, takes_what_is_empty) {
  EXPECT_EQ(ops::top_k(this->any({0, 3}), 2).values.shape(), (Shape{0, 2}));
  EXPECT_EQ(ops::top_k(this->any({2, 0}), 0).indices.shape(), (Shape{2, 0}));
  auto const none = this->template any<std::int64_t>({2, 0});
  EXPECT_THAT(to_host(ops::top_k_gradient(this->any({2, 0}), none, 1)), ElementsAre(0, 0));
}

TYPED_TEST(TopKTest, refuses_what_is_out_of_range) {
  expect_refused([&] { (void)ops::top_k(this->any({3}), 1); }, "top_k", "[3]");
  expect_refused([&] { (void)ops::top_k(this->any({3, 4}), 5); }, "top_k", "5", "4");
  expect_refused([&] { (void)ops::top_k(this->any({3, 4}), -1); }, "-1");
  expect_refused([&] { (void)ops::top_k(this->any({3, 1000}), 257); }, "257", "256");
  auto const indices = this->template any<std::int64_t>({2, 2});
  auto const gradient = [&](Shape const& shape, std::int64_t columns) {
    return [&, shape, columns] { (void)ops::top_k_gradient(this->any(shape), indices, columns); };
  };
  expect_refused(gradient({2, 3}, 4), "top_k_gradient", "[2, 3]", "[2, 2]");
  expect_refused(gradient({2, 2}, 1), "1 columns");
}

}  // namespace
}  // namespace msstream::testing
