// SPDX-License-Identifier: Apache-2.0
// Tests that the pinned buffers of answers report when the answers are complete.
#include "runtime/counting.hpp"
#include "serve/serve_fixture.hpp"
#include "serve/slot.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <type_traits>

namespace msstream::testing {
namespace {

static_assert(std::is_same_v<serve::Branches<>, serve::Branches<DefaultRuntime>>);

template <class R>
class StagingTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(StagingTest, Runtimes, RuntimeNames);

TYPED_TEST(StagingTest, answers_of_any_size_tell_when_they_are_there) {
  ServeWorld<TypeParam> const world;
  Random random;
  auto const layout = std::make_shared<serve::InputLayout const>(
      std::vector<serve::Field>{serve::field<float>("values", 1)});
  for (std::int64_t const outputs : {1, 31, 1023, 1024, 5000, 16384, 16385, 40000}) {
    SCOPED_TRACE(outputs);
    auto const expected = random.reals(outputs);
    auto const result = to_device<float, TypeParam>(world.device, expected, {1, outputs});
    serve::Staging<TypeParam> const staging(world.device, layout, 1, outputs);
    for (int round = 0; round < 3; ++round) {
      std::fill_n(const_cast<float*>(staging.answers().data()), outputs, -1.0F);
      staging.expect_answers();
      bool has_issued = false;
      order::Position last;
      {
        std::optional<Gate> gate;
        if (round > 0) {  // the first round loads the kernel
          gate.emplace().hold(world.device.default_group().d2h());
        }
        last = staging.issue(
            1, [&](auto const&) { return result; }, has_issued);
        EXPECT_TRUE(!gate || !staging.have_arrived());
      }
      world.device.context()->tracker->synchronize(last);
      EXPECT_TRUE(staging.have_arrived());
      EXPECT_TRUE(same_bits(expected, {staging.answers().begin(), staging.answers().end()}));
    }
  }
}

TEST(StagingCalls, nobody_asks_the_device_while_answers_come_in_time) {
  using R = Counting<Host>;
  auto const census = std::make_shared<Census>();
  ServeWorld<R> const world(DeviceOptions<R>{.runtime = {.runtime = {}, .census = census}});
  serve::InferencePool pool(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 3);
  constexpr std::uint64_t kQueries = 200;
  auto const before = census->event_calls.load();
  auto const begin = serve::Clock::now();
  for (std::uint64_t i = 0; i < kQueries; ++i) {
    static_cast<void>(pool.submit(asked.query()).get());
  }
  auto const overdue_at_most =
      static_cast<std::uint64_t>((serve::Clock::now() - begin) / serve::kOverdue) + 1;
  EXPECT_LE(census->event_calls.load() - before, 3 * overdue_at_most);
}

}  // namespace
}  // namespace msstream::testing
