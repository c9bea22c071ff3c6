// SPDX-License-Identifier: Apache-2.0
// Tests that switch off one mechanism of msstream's ordering at a time. Within a bounded number of
// random programs, Checked must report a finding, or the simulated device must compute a wrong
// value.
#include "base/mechanism.hpp"
#include "stream/stream.hpp"
#include "trust/run_program.hpp"
#include "trust/switched_off.hpp"

#include <msstream/base/error.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

/// Runs the program. Returns the name of the detector that has noticed an error, or nothing.
template <class Program>
[[nodiscard]] std::optional<std::string> what_tells(Program&& program) {
  try {
    program();
  } catch (RaceError const& error) {
    return "Checked: " + std::string(name_of(error.report().kind));
  } catch (WrongValue const&) {
    return "Sim: wrong value";
  } catch (RuntimeError const& error) {
    return std::string_view(error.what()).find("follow all that was captured") !=
                   std::string_view::npos
               ? std::optional<std::string>("`Host`: no graph")
               : std::nullopt;
  }
  return std::nullopt;
}

void run_random_program(std::uint32_t seed) {
  run_simulated(Choices(seed), seed, 60);
}

/// A signal that one thread waits for and another thread sets.
class Signal {
 public:
  ~Signal() { give(); }
  void await() const { given_.wait(false); }
  void give() {
    given_ = true;
    given_.notify_all();
  }

 private:
  std::atomic<bool> given_{false};
};

/// Issues a read that must follow a write of another group, while the write waits on its launch
/// thread behind a blocked operation. With the launch handshake the read is launched after the
/// write; without it, before.
void run_behind_a_launch_thread(std::uint32_t) {
  using R = Checked<Host>;
  // The signal must outlive the launch threads.
  Signal may_go;
  Checked<Host>::Options const options{
      .check = {.mode = CheckMode::throw_error, .report_path = {}}};
  Device<R> const device({.runtime = options});
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::per_group});
  Tensor<float, R> const other(device, {16});
  Tensor<float, R> const shared(device, {16});
  {
    StreamScope const scope(pool[0]);
    issue("held", writes(other), [&](auto) { may_go.await(); });
    issue("write", writes(shared), [](auto) {});
  }
  auto const read = [&] {
    StreamScope const scope(pool[1]);
    return issue("read", reads(shared), [](auto) {});
  }();
  if (!works(Mechanism::launch_handshake)) {
    pool[1].compute().engine().slot().await_launched(read.number);
  }
  may_go.give();
  pool.synchronize();
}

/// Issues a read that follows a write whose launch fails, so that the read must not run.
void run_behind_a_failed_launch(LaunchThreads of_the_read) {
  using R = Checked<Host>;
  Checked<Host>::Options const options{.check = {.mode = CheckMode::count, .report_path = {}}};
  Device<R> const device({.runtime = options});
  StreamPool writers(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamPool readers(device, {.groups = 1, .launch_threads = of_the_read});
  Tensor<float, R> const shared(device, {16});
  auto const& follower = readers[0].compute().engine().slot();
  auto const before = follower.reserved.load();
  EXPECT_THROW(
      {
        {
          StreamScope const scope(writers[0]);
          issue("write", writes(shared), [&](auto) {
            while (follower.reserved.load() == before) {
              std::this_thread::yield();
            }
            throw std::runtime_error("not launched");
          });
        }
        StreamScope const scope(readers[0]);
        issue("read", reads(shared), [](auto) {});
        readers.synchronize();
        writers.synchronize();
      },
      std::runtime_error);
  auto& checker = *device.runtime().checker();
  if (checker.count() != 0) {
    throw RaceError(checker.reports().front());
  }
}
void run_on_launch_threads_behind_a_failed_launch(std::uint32_t) {
  run_behind_a_failed_launch(LaunchThreads::per_group);
}
void run_by_its_caller_behind_a_failed_launch(std::uint32_t) {
  run_behind_a_failed_launch(LaunchThreads::none);
}

/// Returns the gradient of a weight that several branches use, each on its own stream group. The
/// gradient is a sum of small and large terms, so its bits depend on the order of the additions.
[[nodiscard]] std::vector<float> gradient_of_branches(std::uint32_t seed, int groups) {
  using R = Checked<Sim>;
  constexpr int kBranches = 5;
  Checked<Sim>::Options const options{.runtime = {.schedule = sim::random(seed)},
                                      .check = {.mode = CheckMode::throw_error, .report_path = {}}};
  Device<R> const device({.runtime = options});
  StreamPool pool(device, {.groups = groups, .launch_threads = LaunchThreads::none});
  GradientTape tape(device);
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> sign_and_digits(-1, 1);
  auto const weight = to_device(device, std::vector<float>{0.5F, -1.0F, 2.0F, 0.25F}, {2, 2});
  auto const bias = to_device(device, std::vector<float>{0.1F, 0.2F}, {2});
  std::vector<Tensor<float, R>> branches;
  for (int i = 0; i < kBranches; ++i) {
    StreamScope const scope(pool[i % groups], {.include_grad = true});
    std::vector<float> elements(4);
    for (auto& element : elements) {
      element = std::ldexp(sign_and_digits(random), -4 * (i % 3));
    }
    auto const input = to_device(device, elements, {2, 2});
    branches.push_back(ops::dense(tape, input, weight, bias, ops::Activation::none));
  }
  auto const labels =
      to_device(device, std::vector<float>(4 * kBranches, 1.0F), {4 * kBranches, 1});
  auto const logits = ops::concat(tape, branches).reshaped({4 * kBranches, 1});
  tape.backward(ops::mean_bce_with_logits(tape, logits, labels));
  return to_host(tape.gradient(weight));
}

void run_training_of_branches(std::uint32_t seed) {
  if (gradient_of_branches(seed, 3) != gradient_of_branches(seed, 1)) {
    throw WrongValue("the gradient's bits depend on the groups");
  }
}

/// Captures two branches on two groups. The work of the last branch is part of the graph only if
/// the end of the capture joins that branch.
void run_captured_branches(std::uint32_t) {
  Device<Host> const device;
  StreamPool pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  auto const out = to_device(device, std::vector<float>{0, 0}, {2});
  CapturedStep step(device, [&] {
    for (int group = 0; group < 2; ++group) {
      StreamScope const scope(pool[group]);
      fill_bytes(out, static_cast<std::uint8_t>(group));
    }
  });
  step.replay();
  device.default_group().synchronize();
}

struct Case {
  Mechanism mechanism;
  std::string_view name;
  void (*run)(std::uint32_t seed);
  std::uint32_t within;  ///< the number of programs that must reveal it
};
void PrintTo(Case const& tested, std::ostream* out) {
  *out << tested.name;
}

constexpr Case kCases[] = {
    {Mechanism::read_after_write, "read_after_write", run_random_program, 10},
    {Mechanism::write_after_read, "write_after_read", run_random_program, 10},
    {Mechanism::write_after_write, "write_after_write", run_random_program, 10},
    {Mechanism::elision_by_number, "elision_by_number", run_random_program, 10},
    {Mechanism::elision_by_completion, "elision_by_completion", run_random_program, 10},
    {Mechanism::event_position, "event_position", run_random_program, 20},
    {Mechanism::event_clock, "event_clock", run_random_program, 1500},
    {Mechanism::event_recycling, "event_recycling", run_random_program, 200},
    {Mechanism::stream_slot_reuse, "stream_slot_reuse", run_random_program, 100},
    {Mechanism::launch_handshake, "launch_handshake", run_behind_a_launch_thread, 1},
    {Mechanism::reuse_follows_uses, "reuse_follows_uses", run_random_program, 200},
    {Mechanism::reuse_of_frozen, "reuse_of_frozen", run_random_program, 200},
    {Mechanism::pinned_reuse, "pinned_reuse", run_random_program, 200},
    {Mechanism::host_wait, "host_wait", run_random_program, 10},
    {Mechanism::holder_hold, "holder_hold", run_random_program, 200},
    {Mechanism::holder_release, "holder_release", run_random_program, 200},
    {Mechanism::release_after_uses, "release_after_uses", run_random_program, 200},
    {Mechanism::failure_propagation,
     "failure_propagation",
     run_on_launch_threads_behind_a_failed_launch,
     1},
    {Mechanism::failure_propagation,
     "failure_propagation_to_callers",
     run_by_its_caller_behind_a_failed_launch,
     1},
    {Mechanism::capture_join, "capture_join", run_captured_branches, 1},
    {Mechanism::gradient_accumulation, "gradient_accumulation", run_training_of_branches, 10},
};

class Mutation : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Mechanisms, Mutation, ::testing::ValuesIn(kCases), [](auto const& tested) {
  return std::string(tested.param.name);
});

TEST_P(Mutation, is_found_within_a_bounded_number_of_programs) {
  auto const& tested = GetParam();
  std::optional<std::string> found;
  std::uint32_t programs = 0;
  {
    SwitchedOff const off(tested.mechanism);
    while (!found && programs < tested.within) {
      found = what_tells([&] { tested.run(programs); });
      ++programs;
    }
  }
  ASSERT_TRUE(found.has_value()) << "not within " << tested.within << " programs";
  std::cout << "| " << tested.name << " | " << *found << " | " << programs << " |\n";
}

/// Runs the same programs with the mechanism switched on, and expects that no error is detected.
TEST_P(Mutation, is_not_reported_when_it_works) {
  for (std::uint32_t seed = 0; seed < GetParam().within; ++seed) {
    ASSERT_NO_THROW(GetParam().run(seed)) << "program " << seed;
  }
}

}  // namespace
}  // namespace msstream::testing
