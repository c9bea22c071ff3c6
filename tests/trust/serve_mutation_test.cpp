// SPDX-License-Identifier: Apache-2.0
// Tests that switch off a mechanism that keeps the answers of an inference pool right, and expect
// that the error is detected.
#include "base/mechanism.hpp"
#include "serve/serve_fixture.hpp"
#include "trust/switched_off.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/checked.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace msstream::testing {
namespace {

struct Seen {
  bool is_right;
  std::size_t findings;
};

/// Submits a query while the work of the replica is blocked. With the mechanism serve_slot_reuse
/// off, a slot is read before its launch is complete, so the answer arrives while the replica is
/// still blocked.
[[nodiscard]] Seen ask_a_held_replica() {
  using R = Checked<Host>;
  Checked<Host>::Options const checked{.check = {.mode = CheckMode::count, .report_path = {}}};
  ServeWorld<R> const world({.runtime = checked});
  auto const net = world.net(1);
  auto options = world.options();
  options.replicas = 1;
  serve::InferencePool pool(world.device, net, options);
  Random random;
  Asked const asked(random, 3);
  auto const expected = world.alone(*net, asked);
  std::future<Answer> answer;
  {
    Gate gate;
    hold_all(gate, pool);
    answer = pool.submit(asked.query());
    if (!works(Mechanism::serve_slot_reuse)) {
      answer.wait();
    }
  }
  bool is_right = false;
  try {
    is_right = same_bits(answer.get().values, expected);
  } catch (RaceError const&) {
    is_right = false;
  }
  pool.drain();
  pool.streams()[0].synchronize();
  return {is_right, world.device.runtime().checker()->count()};
}

TEST(ServeMutation, a_slot_that_is_read_before_its_launch_is_over_is_reported) {
  SwitchedOff const off(Mechanism::serve_slot_reuse);
  auto const seen = ask_a_held_replica();
  EXPECT_FALSE(seen.is_right);
  EXPECT_GT(seen.findings, 0U);
}
TEST(ServeMutation, a_slot_that_is_read_when_its_launch_is_over_is_not) {
  auto const seen = ask_a_held_replica();
  EXPECT_TRUE(seen.is_right);
  EXPECT_EQ(seen.findings, 0U);
}

/// A model whose answer says whether the model object still exists when its work runs.
struct Mortal {
  explicit Mortal(Device<Host> on) : device(std::move(on)) {}
  Mortal(Mortal const&) = delete;
  Mortal& operator=(Mortal const&) = delete;
  ~Mortal() { *is_alive = false; }

  [[nodiscard]] Tensor<float, Host> operator()(serve::Inputs<Host> const& inputs) const {
    Tensor<float, Host> const answer(device, {inputs.rows(), 1});
    issue("look",
          writes(answer),
          [alive = is_alive, out = answer.data(), count = answer.count()](auto stream) {
            stream.run([=] { std::fill_n(out, count, *alive ? 1.0F : -1.0F); });
          });
    return answer;
  }

  Device<Host> device;
  std::shared_ptr<std::atomic<bool>> is_alive = std::make_shared<std::atomic<bool>>(true);
};

/// Returns the answer to a query that is blocked while its model is replaced.
[[nodiscard]] float ask_a_model_that_is_replaced(bool capture) {
  ServeWorld<Host> const world;
  auto model = std::make_shared<Mortal>(world.device);
  auto const is_alive = model->is_alive;
  auto options = world.options();
  options.outputs_per_row = 1;
  options.replicas = 1;
  options.capture = capture;
  serve::InferencePool pool(world.device, std::move(model), options);
  Random random;
  Asked const asked(random, 1);
  std::future<Answer> answer;
  std::thread swaps;
  {
    Gate gate;
    gate.hold(pool.streams()[0].compute());
    answer = pool.submit(asked.query());
    swaps = std::thread([&] { pool.swap(std::make_shared<Mortal>(world.device)); });
    if (!works(Mechanism::serve_version_kept)) {
      await([&] { return !*is_alive; });
    }
  }
  swaps.join();
  EXPECT_FALSE(*is_alive);
  return answer.get().values.front();
}

TEST(ServeMutation, a_model_that_goes_before_its_last_query_is_over_answers_wrongly) {
  for (bool const capture : {true, false}) {
    SwitchedOff const off(Mechanism::serve_version_kept);
    EXPECT_EQ(ask_a_model_that_is_replaced(capture), -1.0F);
  }
}
TEST(ServeMutation, a_model_that_is_kept_does_not) {
  for (bool const capture : {true, false}) {
    EXPECT_EQ(ask_a_model_that_is_replaced(capture), 1.0F);
  }
}

}  // namespace
}  // namespace msstream::testing
