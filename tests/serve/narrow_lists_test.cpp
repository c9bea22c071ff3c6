// SPDX-License-Identifier: Apache-2.0
// Tests lists of int32, whose offsets a model gets as int32 too: bags of them have the bits of bags
// of int64.
#include "base/message_of.hpp"
#include "serve/lists_fixture.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <string>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

/// A query whose lists are given as int64 and as int32.
struct TwoWidths {
  TwoWidths(Random& random, std::int64_t of_rows)
      : asked(random, of_rows, 16 * ListNet<Host>::kPerRow) {
    for (auto& key : asked.keys) {
      key = (key % Net<Host>::kTableRows + Net<Host>::kTableRows) % Net<Host>::kTableRows;
    }
    narrow.assign(asked.keys.begin(), asked.keys.end());
  }
  [[nodiscard]] Query query() const {
    return {.rows = asked.rows,
            .values = {{asked.keys, asked.offsets}, asked.weights, {narrow, asked.offsets}}};
  }

  AskedLists asked;
  std::vector<std::int32_t> narrow = {};
};

/// A model that looks up the same keys twice, as int64 and as int32.
template <Runtime R>
struct TwoWidthsNet {
  explicit TwoWidthsNet(Device<R> const& device) : net(device, 1) {}

  [[nodiscard]] static InferencePoolOptions options() {
    return {.inputs = {serve::jagged_field<std::int64_t>("keys", ListNet<R>::kPerRow),
                       serve::jagged_field<float>("weights", ListNet<R>::kPerRow, "keys"),
                       serve::jagged_field<std::int32_t>("narrow", ListNet<R>::kPerRow)},
            .outputs_per_row = 2 * Net<R>::kWidth,
            .replicas = 2,
            .buckets = {4, 16}};
  }
  template <Element Id>
  [[nodiscard]] Tensor<float, R> lookup(Tensor<Id, R> const& keys,
                                        Tensor<Id, R> const& offsets,
                                        Tensor<float, R> const& weights) const {
    ops::Bags<R> bags(keys, offsets);
    bags.weights = weights;
    return ops::embedding_lookup(net.table, bags);
  }
  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    auto const weights = inputs.floats("weights");
    return ops::concat<R>({lookup(inputs.ints("keys"), inputs.offsets("keys"), weights),
                           lookup(inputs.template get<std::int32_t>("narrow"),
                                  inputs.template offsets<std::int32_t>("narrow"),
                                  weights)});
  }
  /// Returns the result for a query's rows in tensors of their own size.
  [[nodiscard]] Floats evaluate(AskedLists const& asked) const {
    Shape const keys{asked.offsets.back()};
    auto const rows =
        lookup(to_device<std::int64_t, R>(net.device, asked.keys, keys),
               to_device<std::int64_t, R>(net.device, asked.offsets, {asked.rows + 1}),
               to_device<float, R>(net.device, asked.weights, keys));
    return to_host(ops::concat<R>({rows, rows}));
  }

  Net<R> net;
};

template <class R>
class ServeNarrowListsTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ServeNarrowListsTest, Runtimes, RuntimeNames);

TYPED_TEST(ServeNarrowListsTest, get_the_bits_of_wide_ones) {
  ServeWorld<TypeParam> const world;
  auto const net = std::make_shared<TwoWidthsNet<TypeParam> const>(world.device);
  for (auto const delay : {0, 100}) {
    for (bool const capture : {true, false}) {
      auto options = net->options();
      options.max_batch_delay = std::chrono::microseconds(delay);
      options.capture = capture;
      serve::InferencePool pool(world.device, net, options);
      Random random;
      SCOPED_TRACE(fmt::format("seed {}, delay {}, captured {}", random.seed(), delay, capture));
      std::vector<TwoWidths> queries;
      std::vector<std::future<Answer>> answers;
      for (int i = 0; i < 40; ++i) {
        auto const& query = queries.emplace_back(random, random.integer(1, 16));
        answers.push_back(pool.submit(query.query()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(same_bits(answers[i].get().values, net->evaluate(queries[i].asked)))
            << "query " << i;
      }
      EXPECT_EQ(pool.counts().failed_captures, 0U);
    }
  }
}

TYPED_TEST(ServeNarrowListsTest, alone_have_narrow_offsets) {
  ServeWorld<TypeParam> const world;
  auto const refusal = message_of<std::invalid_argument>([&] {
    serve::InferencePool const pool(
        world.device,
        std::make_shared<serve::Forward<TypeParam> const>(
            [&](serve::Inputs<TypeParam> const& inputs) {
              static_cast<void>(inputs.template offsets<std::int32_t>("keys"));
              return inputs.floats("weights");
            }),
        TwoWidthsNet<TypeParam>::options());
  });
  EXPECT_THAT(refusal,
              HasSubstr("offsets of int32 of input 'keys', whose lists have elements of "
                        "int64; expected int64"));
}

TEST(ServeNarrowLists, without_room_for_their_offsets_are_refused) {
  InferencePoolOptions options{.inputs = {serve::jagged_field<std::int32_t>("ids", 1 << 20)},
                               .buckets = {64, 2047}};
  EXPECT_NO_THROW(static_cast<void>(options.checked()));
  options.buckets = {64, 2048};
  EXPECT_THAT(message_of<std::invalid_argument>([&] { static_cast<void>(options.checked()); }),
              HasSubstr("lists of 'ids' with room for 2147483648 elements of int32"));
}

}  // namespace
}  // namespace msstream::testing
